"""Where to begin reading, as people say it: `beginning`, `end`, an offset, a time."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import click

from sawlog.client.consumer import AT_EARLIEST, AT_LATEST, AtOffset, AtTime, Start

_AGO_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


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
        if value.removeprefix("-").isdecimal():
            number = int(value)
            return AtOffset(number) if not value.startswith("-") else FromEnd(-number)
        moment = _moment(value)
        if moment is None:
            self.fail(
                f"{value!r} is none of: beginning, end, an offset (17), records before the end"
                " (-5), a time (2025-01-31T12:00:00Z), a time ago (30s, 15m, 2h, 1d)",
                param,
                ctx,
            )
        return AtTime(int(moment.timestamp() * 1_000))


def _moment(text: str) -> datetime | None:
    number, unit = text[:-1], text[-1:]
    if unit in _AGO_UNITS and number.isdecimal():
        return datetime.now(UTC) - timedelta(**{_AGO_UNITS[unit]: int(number)})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone() if moment.tzinfo is None else moment
