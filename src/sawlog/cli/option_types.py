"""Types of option and argument values, each with one check, and options of several commands.

An accepted value can be sent: a number fits its field, text is UTF-8. This module imports neither
the client nor the broker, because commands of both use it and start-up time matters.
"""

import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

_LONGEST_TIMEOUT_S = 1_000_000  # in milliseconds it still fits the field of a request
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")  # int() of unlimited digits takes quadratic time


class Integer(click.ParamType[int]):
    """An integer in a range; the error message names both."""

    name = "integer"

    def __init__(self, lowest: int, highest: int) -> None:
        self._allowed = range(lowest, highest + 1)
        self._expected = f"an integer from {lowest} to {highest}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not _INTEGER.fullmatch(text) or int(text) not in self._allowed:
            self.fail(f"{text[:40]!r} is not {self._expected}", param, ctx)
        return int(text)


class Text(click.ParamType[str]):
    """UTF-8 text. Other bytes, which Python passes as lone surrogates, are refused."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            str(value).encode()
        except UnicodeEncodeError:
            shown = os.fsencode(value).decode("utf-8", "backslashreplace")
            self.fail(f"'{shown}' is not UTF-8 text", param, ctx)
        return str(value)


class RawBytes(click.ParamType[bytes]):
    """The bytes of the command line: keys and values need not be text."""

    name = "text"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> bytes:
        if isinstance(value, bytes):
            return value
        try:
            return os.fsencode(value)
        except UnicodeEncodeError:
            self.fail(f"{value!r} cannot be encoded", param, ctx)


class Seconds(click.FloatRange):
    """A duration in seconds, from `shortest_s` to about eleven days."""

    def __init__(self, shortest_s: float = 0.001) -> None:
        super().__init__(min=shortest_s, max=_LONGEST_TIMEOUT_S)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


class Name(Text):
    """Text that is not empty."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = super().convert(value, param, ctx)
        if not text:
            self.fail("the name is empty", param, ctx)
        return text


class DataDirectory(click.Path):
    """A directory, which may not exist yet. Empty is refused: an unset variable in a script."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not value:
            self.fail("the value is empty; expected a directory", param, ctx)
        return super().convert(value, param, ctx)


PARTITION = Integer(0, 2**31 - 1)
PARTITION_COUNT = Integer(1, 2**31 - 1)
REPLICA_COUNT = Integer(1, 2**15 - 1)
TEXT = Text()
NAME = Name()
RAW_BYTES = RawBytes()
SECONDS = Seconds()

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def split_pair(option: str, text: str, name: str = "KEY") -> tuple[str, str]:
    """Split `KEY=VALUE`; `option` and `name` are for the error message."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.UsageError(f"{option} {text}: expected {name}=VALUE")
    return key, value


def parse_settings(
    option: str, settings: Iterable[str], *, last_wins: bool = False
) -> dict[str, str]:
    """Parse the `KEY=VALUE` pairs of a repeated option; a key is given once, unless `last_wins`."""
    parsed: dict[str, str] = {}
    for setting in settings:
        key, value = (part.strip() for part in split_pair(option, setting))
        if key in parsed and not last_wins:
            raise click.UsageError(f"{option} {setting}: {key} is given twice")
        parsed[key] = value
    return parsed
