"""Types of options that name a start: `beginning`, `end`, an offset, a time.

A time without a zone is UTC, as in Kafka's tools, so that a command means the same on every
machine.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import click

from sawlog.client.consumer.consumer import AT_EARLIEST, AT_LATEST, AtOffset, AtTime, Start

_AGO_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LAST_OFFSET = 2**63 - 1
_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_AGO_DIGITS = 15
TIMES = "a time (2025-01-31T12:00:00Z, UTC unless a zone is given), a time ago (30s, 15m, 2h, 1d)"
_EPOCH = "milliseconds since 1970 (1738324800000)"
_NUMBER = re.compile(r"-?[0-9]+")
_AGO = re.compile(r"([0-9]+)([smhd])(?: +ago)?")
_FEWEST_EPOCH_DIGITS = 12  # fewer digits are likely seconds or an offset, not a time before 1974


class FromEnd(NamedTuple):
    """A number of records before the end of each partition, as kcat's `-o -5`."""

    records: int


class StartPoint(click.ParamType[Start | FromEnd]):
    """A start: `beginning`, `end`, `17`, `-5`, `2025-01-31T12:00`, `15m`, `15m ago`."""

    name = "start"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Start | FromEnd:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # converted already
        if value == "beginning":
            return AT_EARLIEST
        if value == "end":
            return AT_LATEST
        if _NUMBER.fullmatch(value):
            return self._number(value, param, ctx)
        try:
            return at_time(value)
        except NotATime:
            self.fail(
                f"{value!r} is not one of: beginning, end, an offset (17), a number of records"
                f" before the end of each partition (-5), {TIMES}",
                param,
                ctx,
            )
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def _number(
        self, text: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> Start | FromEnd:
        if len(text) > len(str(-_LAST_OFFSET)) or abs(int(text)) > _LAST_OFFSET:
            self.fail(f"{text[:40]} is not an offset; the highest is {_LAST_OFFSET}", param, ctx)
        number = int(text)
        return FromEnd(-number) if text.startswith("-") else AtOffset(number)


class TimePoint(click.ParamType[AtTime]):
    """A time: `2025-01-31T12:00`, `15m`, `15m ago`, `1738324800000`."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> AtTime:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # converted already
        try:
            return _at_epoch(value) if _NUMBER.fullmatch(value) else at_time(value)
        except NotATime:
            self.fail(f"{value[:40]!r} is not one of: {TIMES}, {_EPOCH}", param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def show_time(timestamp_ms: int) -> str:
    """Format a time as `2025-01-31T12:00:00.000Z`, or by its number beyond the calendar's range."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms after 1970"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class NotATime(ValueError):
    """A text does not look like a time."""


def _at_epoch(text: str) -> AtTime:
    """Parse milliseconds since 1970. Raises ValueError if no record can have this timestamp."""
    if text.startswith("-"):
        raise NotATime
    digits = text.lstrip("0")
    if len(digits) < _FEWEST_EPOCH_DIGITS:
        raise ValueError(f"{text[:40]!r} has too few digits for {_EPOCH}")
    if len(digits) > len(str(_LAST_OFFSET)) or int(digits) > _LAST_OFFSET:
        raise ValueError(f"{text[:40]!r} is outside the range of timestamps")
    return AtTime(int(digits))


def at_time(text: str) -> AtTime:
    """Parse a time or a time ago. Raises NotATime, or ValueError if no record can have it."""
    try:
        moment = _moment(text)
    except OverflowError:
        raise ValueError(f"{text[:40]!r} is outside the range of timestamps") from None
    if moment is None:
        raise NotATime
    if moment < _FIRST_MOMENT:
        raise ValueError(f"{text!r} is before 1970, the lowest timestamp")
    return AtTime(int(moment.timestamp() * 1_000))


def _moment(text: str) -> datetime | None:
    """Parse the text; None if it is not a time, OverflowError beyond the calendar's range."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        number, unit = ago.groups()
        if len(number) > _MOST_AGO_DIGITS:
            raise OverflowError
        return datetime.now(UTC) - timedelta(**{_AGO_UNITS[unit]: int(number)})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
