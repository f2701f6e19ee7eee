"""The kinds of values that options and arguments take, with one check for each kind.

What passes here can be sent: a number fits its field, a text is text. Nothing of a client or a
broker is imported, because both commands pay for it.
"""

import math
import os
import re
from collections.abc import Iterable
from typing import Any

import click

_LONGEST_TIMEOUT_S = 1_000_000  # in milliseconds it still fits the field of a request
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")  # so few digits that reading them costs nothing


class WholeNumber(click.ParamType[int]):
    """Says what is wrong with a number in words that need no knowledge of click."""

    name = "integer"

    def __init__(self, lowest: int, highest: int) -> None:
        self._allowed = range(lowest, highest + 1)
        self._meant = f"a whole number from {lowest} to {highest}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not _WHOLE.fullmatch(text) or int(text) not in self._allowed:
            self.fail(f"{text[:40]!r} is not {self._meant}", param, ctx)
        return int(text)


class Text(click.ParamType[str]):
    """Text, and no other bytes, which Python lets through in disguise."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            str(value).encode()
        except UnicodeEncodeError:
            shown = os.fsencode(value).decode("utf-8", "backslashreplace")
            self.fail(f"'{shown}' is not UTF-8 text", param, ctx)
        return str(value)


class RawBytes(click.ParamType[bytes]):
    """The bytes as they stand on the command line: keys and values need not be text."""

    name = "text"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> bytes:
        if isinstance(value, bytes):
            return value
        try:
            return os.fsencode(value)
        except UnicodeEncodeError:
            self.fail("it is not text", param, ctx)


class Seconds(click.FloatRange):
    """A time to wait: some milliseconds to some days."""

    def __init__(self, shortest_s: float = 0.001) -> None:
        super().__init__(min=shortest_s, max=_LONGEST_TIMEOUT_S)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is no time in seconds", param, ctx)
        return seconds


class Name(Text):
    """Text that is not empty: nothing has such a name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = super().convert(value, param, ctx)
        if not text:
            self.fail("a name is wanted, and this one is empty", param, ctx)
        return text


PARTITION = WholeNumber(0, 2**31 - 1)
PARTITION_COUNT = WholeNumber(1, 2**31 - 1)
REPLICA_COUNT = WholeNumber(1, 2**15 - 1)
TEXT = Text()
NAME = Name()
RAW_BYTES = RawBytes()
SECONDS = Seconds()


def split_pair(option: str, text: str, name: str = "KEY") -> tuple[str, str]:
    """The two sides of `KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.UsageError(f"{option} {text}: expected {name}=VALUE")
    return key, value


def parse_settings(option: str, settings: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE` pairs of a repeated option; the last of a key counts."""
    pairs = (split_pair(option, setting) for setting in settings)
    return {key.strip(): value.strip() for key, value in pairs}
