"""Where to begin reading, as people say it: `beginning`, `end`, an offset, a time."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import click

from sawlog.client.consumer import AT_EARLIEST, AT_LATEST, AtOffset, AtTime, Start

_AGO_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LAST_OFFSET = 2**63 - 1
_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_AGO = 15  # digits
_TIMES = "a time (2025-01-31T12:00:00Z), a time ago (30s, 15m, 2h, 1d)"
_NUMBER = re.compile(r"-?[0-9]+")


class FromEnd(NamedTuple):
    """So many records before the end of each partition."""

    records: int


class StartPoint(click.ParamType[Start | FromEnd]):
    """`beginning`, `end`, `17`, `-5` (before the end), `2025-01-31T12:00`, `15m` (ago)."""

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
            return _at_time(value)
        except _NoTime:
            self.fail(
                f"{value!r} is none of: beginning, end, an offset (17), records before the end"
                f" (-5), {_TIMES}",
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
    """`2025-01-31T12:00`, `15m` (ago)."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> AtTime:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # converted already
        try:
            return _at_time(value)
        except _NoTime:
            self.fail(f"{value!r} is neither {_TIMES.replace(', ', ' nor ', 1)}", param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _NoTime(ValueError):
    """A text that does not look like a time."""


def _at_time(text: str) -> AtTime:
    """ValueError says why no record could have that time."""
    try:
        moment = _moment(text)
    except OverflowError:
        raise ValueError(f"{text!r} is no time that a record could have") from None
    if moment is None:
        raise _NoTime
    if moment < _FIRST_MOMENT:
        raise ValueError(f"{text!r} lies before 1970, where time begins here")
    return AtTime(int(moment.timestamp() * 1_000))


def _moment(text: str) -> datetime | None:
    """OverflowError where no calendar has it."""
    number, unit = text[:-1], text[-1:]
    if unit in _AGO_UNITS and _NUMBER.fullmatch(number) and not number.startswith("-"):
        if len(number) > _LONGEST_AGO:
            raise OverflowError
        return datetime.now(UTC) - timedelta(**{_AGO_UNITS[unit]: int(number)})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is not None:
        return moment
    try:
        return moment.astimezone()
    except ValueError:
        raise OverflowError from None
