"""Where to begin reading, as people say it: `beginning`, `end`, an offset, a time.

A time without a zone is one of UTC, as in Kafka's own tools: what a command does must not depend on
the machine that it is typed on.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import click

from sawlog.client.consumer.consumer import AT_EARLIEST, AT_LATEST, AtOffset, AtTime, Start

_AGO_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LAST_OFFSET = 2**63 - 1
_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_AGO = 15  # digits
TIMES = "a time (2025-01-31T12:00:00Z, UTC where no zone is given), a time ago (30s, 15m, 2h, 1d)"
_EPOCH = "milliseconds since 1970 (1738324800000)"
_NUMBER = re.compile(r"-?[0-9]+")
_AGO = re.compile(r"([0-9]+)([smhd])(?: +ago)?")
_FEWEST_EPOCH_DIGITS = 12  # fewer are seconds, or an offset, more likely than a time before 1974


class FromEnd(NamedTuple):
    """So many records before the end of each partition, as kcat's `-o -5` means it."""

    records: int


class StartPoint(click.ParamType[Start | FromEnd]):
    """`beginning`, `end`, `17`, `-5` (before the end), `2025-01-31T12:00`, `15m`, `15m ago`."""

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
        except NoTime:
            self.fail(
                f"{value!r} is none of: beginning, end, an offset (17), so many records before the"
                f" end of each partition (-5), {TIMES}",
                param,
                ctx,
            )
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def _number(
        self, text: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> Start | FromEnd:
        if len(text) > len(str(-_LAST_OFFSET)) or abs(int(text)) > _LAST_OFFSET:
            self.fail(f"{text[:40]} is no offset; the last is {_LAST_OFFSET}", param, ctx)
        number = int(text)
        return FromEnd(-number) if text.startswith("-") else AtOffset(number)


class TimePoint(click.ParamType[AtTime]):
    """`2025-01-31T12:00`, `15m`, `15m ago`, `1738324800000`."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> AtTime:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # converted already
        try:
            return _at_epoch(value) if _NUMBER.fullmatch(value) else at_time(value)
        except NoTime:
            self.fail(f"{value[:40]!r} is none of: {TIMES}, {_EPOCH}", param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def show_time(timestamp_ms: int) -> str:
    """`2025-01-31T12:00:00.000Z`; a time that no calendar has is told by its number."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms after 1970"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class NoTime(ValueError):
    """A text that does not look like a time."""


def _at_epoch(text: str) -> AtTime:
    """ValueError where the number is none that a record could have, or more likely no such time."""
    if text.startswith("-"):
        raise NoTime
    digits = text.lstrip("0")
    if len(digits) < _FEWEST_EPOCH_DIGITS:
        raise ValueError(f"{text[:40]!r} has too few digits for {_EPOCH}")
    if len(digits) > len(str(_LAST_OFFSET)) or int(digits) > _LAST_OFFSET:
        raise ValueError(f"{text[:40]!r} is no time that a record could have")
    return AtTime(int(digits))


def at_time(text: str) -> AtTime:
    """ValueError says why no record could have that time."""
    try:
        moment = _moment(text)
    except OverflowError:
        raise ValueError(f"{text!r} is no time that a record could have") from None
    if moment is None:
        raise NoTime
    if moment < _FIRST_MOMENT:
        raise ValueError(f"{text!r} lies before 1970, where time begins here")
    return AtTime(int(moment.timestamp() * 1_000))


def _moment(text: str) -> datetime | None:
    """OverflowError where no calendar has it."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        number, unit = ago.groups()
        if len(number) > _LONGEST_AGO:
            raise OverflowError
        return datetime.now(UTC) - timedelta(**{_AGO_UNITS[unit]: int(number)})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
