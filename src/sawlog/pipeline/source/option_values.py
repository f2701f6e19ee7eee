"""Parses options: names without regard to case, values checked, unknown names rejected.

Error messages have the option's name, the values it accepts, and the nearest known name.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from sawlog.client.net.addresses import parse_addresses

Value = TypeVar("Value")

INT = (1 << 31) - 1
LONG = (1 << 63) - 1

_UNITS_MS = {
    "us": 0.001,
    "ms": 1.0,
    "s": 1_000.0,
    "m": 60_000.0,
    "min": 60_000.0,
    "h": 3_600_000.0,
    "d": 86_400_000.0,
}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")


class BadOption(ValueError):
    """An option that is unknown, missing, contradictory or has an invalid value."""


class Options:
    """The given options by their names in `known`. Raises BadOption for other names."""

    def __init__(self, written: Mapping[str, str], known: Iterable[str], what: str) -> None:
        by_lower_name = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        for name, value in written.items():
            if name.lower() not in by_lower_name:
                raise BadOption(_unknown(name, by_lower_name.values(), what))
            self._values[by_lower_name[name.lower()]] = str(value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def given(self, names: Collection[str]) -> list[str]:
        return [name for name in names if name in self._values]

    def text(self, name: str) -> str | None:
        value = self._values.get(name)
        return None if value is None else value.strip()

    def read(self, name: str, parse: Callable[[str], Value], default: Value) -> Value:
        """The parsed value of an option; errors are raised with its name."""
        value = self.text(name)
        if value is None:
            return default
        try:
            return parse(value)
        except ValueError as error:
            raise BadOption(f"the option {name!r} is {value!r}: {error}") from None

    def required(self, name: str, parse: Callable[[str], Value]) -> Value:
        found = self.read(name, lambda text: (parse(text),), None)
        if found is None:
            raise BadOption(f"the option {name!r} is missing")
        return found[0]


def flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it takes true or false")
    return text.lower() == "true"


def whole(lowest: int, highest: int = INT) -> Callable[[str], int]:
    """A parser for integers within bounds; the default is the Java client's int."""

    def parse(text: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]+", text) is None or not lowest <= int(text) <= highest:
            raise ValueError(f"it takes a whole number from {lowest} to {highest}")
        return int(text)

    return parse


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"it takes {' or '.join(repr(choice) for choice in choices)}")
        return text.lower()

    return parse


def duration_ms(text: str) -> float:
    """Parse a time as Spark does: a number with us, ms, s, m, min, h or d; default ms."""
    found = _DURATION.fullmatch(text.lower())
    if found is None or (found[2] or "ms") not in _UNITS_MS:
        raise ValueError(f"it takes a time such as 500ms, 10s or 15m ({', '.join(_UNITS_MS)})")
    return int(found[1]) * _UNITS_MS[found[2] or "ms"]


def addresses(text: str) -> str:
    parse_addresses(text)
    return text


def nearest(name: str, known: Iterable[str]) -> str:
    """A suggestion for an unknown name."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[close[0]]!r}?" if close else f"known are {', '.join(known)}"


def _unknown(name: str, known: Collection[str], what: str) -> str:
    return f"{what} has no option {name!r}; {nearest(name, known)}"
