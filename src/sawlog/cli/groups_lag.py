"""`sawlog groups lag`: the lag of groups, their read rates, and the time until they catch up."""

import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import click

from sawlog.cli.cluster_options import show_partitions, with_cluster
from sawlog.cli.error_messages import error_line, report_each
from sawlog.cli.exit_codes import FAILED
from sawlog.cli.option_types import NAME, SECONDS, Seconds, json_option
from sawlog.cli.output import (
    counted,
    is_interactive,
    note,
    print_json,
    print_line,
    print_table,
)
from sawlog.cli.units import show_duration
from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.admin.lag import (
    LagForecast,
    LagTrend,
    Measurement,
    forecast,
    measure,
    total_forecast,
)
from sawlog.client.errors import ErrorsByName
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of

_DEFAULT_INTERVAL_S = 5.0  # the default of auto.commit.interval.ms

Measurements = dict[str, Measurement]
Measure = Callable[[], tuple[Measurements, ErrorsByName]]


class Period(click.ParamType[float]):
    """Seconds of `--watch`. click takes the next argument as the value, even if it is a group."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            return SECONDS.convert(value, param, ctx)  # type: ignore[no-any-return]
        except click.BadParameter as error:
            self.fail(f"{error.message.rstrip('.')}; put groups before --watch", param, ctx)


@click.command()
@click.argument("names", metavar="GROUP...", nargs=-1, type=NAME)
@click.option("--all", "all_groups", is_flag=True, help="All groups of the cluster.")
@click.option(
    "--interval",
    "interval_s",
    type=Seconds(0),
    default=_DEFAULT_INTERVAL_S,
    show_default=True,
    metavar="SECONDS",
    help="Time between the two measurements for the rates; 0 measures once, without rates.",
)
@click.option(
    "--watch",
    "period_s",
    type=Period(),
    is_flag=False,
    flag_value=_DEFAULT_INTERVAL_S,
    default=None,
    metavar="[SECONDS]",
    help="Repeat the measurement every SECONDS (default 5) until Ctrl-C.",
)
@json_option
@with_cluster
def lag(
    names: tuple[str, ...],
    all_groups: bool,
    interval_s: float,
    period_s: float | None,
    as_json: bool,
    cluster: Cluster,
) -> None:
    """Show the lag of groups and the time until they catch up.

    Rates are the records committed and produced per second between two measurements.
    """
    if names and all_groups:
        raise click.UsageError("give group names or --all, not both")
    if not names and not all_groups:
        raise click.UsageError("give group names, or --all for all groups")
    admin = GroupAdmin(cluster)

    def measure_groups() -> tuple[Measurements, ErrorsByName]:
        group_ids = [listed.id for listed in admin.list_groups()] if all_groups else names
        return measure(cluster, admin, group_ids)

    if period_s is not None:
        _watch(measure_groups, period_s, as_json)
        return
    before, refusals = measure_groups()
    after = before
    if interval_s and before:
        if is_interactive():
            note(f"measuring for {show_duration(interval_s)}")
        time.sleep(interval_s)
        after, refusals = measure_groups()
    _show(before if interval_s else {}, after, as_json)
    report_each((), refusals, "")


def _watch(measure_groups: Measure, period_s: float, as_json: bool) -> None:
    """Measure and print until Ctrl-C, or until all groups are gone."""
    before: Measurements = {}
    while True:
        started_s = time.monotonic()
        after, refusals = measure_groups()
        if sys.stdout.isatty() and not as_json:
            click.clear()
        _show(before, after, as_json)
        for name, error in refusals.items():
            note(error_line(name, error))
        if refusals and not after:
            click.get_current_context().exit(FAILED)
        before = after
        time.sleep(max(0.0, started_s + period_s - time.monotonic()))


def _show(before: Measurements, after: Measurements, as_json: bool) -> None:
    entries = [_entry(before.get(name), measured) for name, measured in after.items()]
    if as_json:
        print_json(entries)
        return
    for index, entry in enumerate(entries):
        if index:
            print_line("")
        _print_entry(entry)


def _entry(before: Measurement | None, after: Measurement) -> dict[str, Any]:
    seconds = 0.0 if before is None else after.at_s - before.at_s
    earlier = {} if before is None else before.positions
    has_members = bool(after.group.members)
    total = total_forecast(earlier, after.positions, seconds, has_members=has_members)
    paces = {
        partition: forecast(earlier.get(partition), position, seconds, has_members=has_members)
        for partition, position in after.positions.items()
    }
    return {
        "group": after.group.id,
        "state": after.group.state,
        "members": len(after.group.members),
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "interval_s": round(seconds, 3) if seconds else None,
        **_pace_fields(total),
        "unknown_partitions": sum(each.lag is None for each in after.positions.values()),
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": position.committed,
                "end": position.end,
                **_pace_fields(paces[partition]),
                "member": None if position.member is None else position.member.id,
            }
            for partition, position in after.positions.items()
        ],
    }


def _pace_fields(found: LagForecast) -> dict[str, Any]:
    return {
        "lag": found.lag,
        "read_per_s": _rounded(found.consumed_per_s),
        "written_per_s": _rounded(found.produced_per_s),
        "catch_up_s": _rounded(found.catch_up_s),
        "trend": found.trend.name.lower(),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _print_entry(entry: dict[str, Any]) -> None:
    members = counted(entry["members"], "member") if entry["members"] else "no members"
    print_line(f"{entry['group']}  {entry['state']}, {members}")
    if not entry["partitions"]:
        print_line("  no committed offsets")
        return
    columns = ("topic", "partition", "committed", "end", "lag", "read/s", "written/s",
               "catches up in")  # fmt: skip
    rows = [
        (
            *(part[key] for key in ("topic", "partition", "committed", "end", "lag")),
            part["read_per_s"],
            part["written_per_s"],
            _show_trend(part),
            part["member"],
        )
        for part in entry["partitions"]
    ]
    print_table((*columns, "member"), rows, numbers=set(columns[1:7]), shortened="member")
    print_line("  " + "  ".join(_totals(entry)))
    beyond = [
        partition_of(part["topic"], part["partition"])
        for part in entry["partitions"]
        if part["lag"] is not None and part["lag"] < 0
    ]
    if beyond:
        note(
            f"{show_partitions(beyond)}: the committed offset is beyond the end; the topic may have"
            " been deleted and created again"
        )


def _totals(entry: dict[str, Any]) -> Iterator[str]:
    yield f"total lag={'unknown' if entry['lag'] is None else entry['lag']}"
    for key, name in (("read_per_s", "read/s"), ("written_per_s", "written/s")):
        yield f"{name}={'unknown' if entry[key] is None else entry[key]}"
    if entry["lag"] is not None:
        yield f"catches up in: {_show_trend(entry)}"
    if entry["unknown_partitions"]:
        yield f"({counted(entry['unknown_partitions'], 'partition')} with unknown lag not counted)"


def _show_trend(entry: dict[str, Any]) -> str:
    trend = LagTrend[entry["trend"].upper()]
    if trend is LagTrend.CATCHING_UP:
        return show_duration(entry["catch_up_s"])
    return str(trend.value)
