"""`sawlog groups reset`: set the offsets of a group without members; a dry run without
`--execute`.
"""

import sys
from pathlib import Path
from typing import Any

import click

from sawlog.cli.cluster_options import (
    TopicScope,
    partitions_of,
    report_partitions,
    topic_option,
    with_cluster,
)
from sawlog.cli.groups_members import non_empty_group
from sawlog.cli.groups_reset_plan import (
    Bounds,
    InvalidPlan,
    Limit,
    PartitionReset,
    bounded,
    notes,
    read_plan,
    write_plan,
)
from sawlog.cli.option_types import NAME, Integer, json_option
from sawlog.cli.output import counted, note, print_json, print_line, print_table
from sawlog.cli.start_options import TimePoint, show_time
from sawlog.client.admin.group_offsets import Committed
from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import group_by_topic
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import TopicPartition

_OFFSET = Integer(0, 2**63 - 1)
_SHIFT = Integer(-(2**63), 2**63 - 1)
_STDIN = "-"
_TARGETS = {
    "to_earliest": "--to-earliest",
    "to_latest": "--to-latest",
    "to_current": "--to-current",
    "to_offset": "--to-offset",
    "to_time": "--to-time",
    "shift_by": "--shift-by",
    "from_file": "--from-file",
}

Offsets = dict[TopicPartition, int]


@click.command()
@click.argument("name", metavar="GROUP", type=NAME)
@topic_option()
@click.option("--all-topics", is_flag=True, help="All partitions with a committed offset.")
@click.option("--to-earliest", is_flag=True, help="To the log start offset.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option(
    "--to-current", is_flag=True, help="To the committed offset, or to the end if there is none."
)
@click.option("--to-offset", type=_OFFSET, metavar="OFFSET", help="To this offset.")
@click.option(
    "--to-time",
    type=TimePoint(),
    metavar="TIME",
    help="To the first record with this timestamp or a later one: 2025-01-31T12:00:00Z (UTC unless"
    " a zone is given), 15m ago, or milliseconds since 1970.",
)
@click.option(
    "--shift-by", type=_SHIFT, metavar="N", help="Forward by N records, or backward if N < 0."
)
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="CSV",
    help="To the offsets of a CSV file with topic,partition,offset; - reads stdin.",
)
@click.option("--execute", is_flag=True, help="Set the offsets. Default: only show the plan.")
@click.option(
    "--export",
    is_flag=True,
    help="Print the new offsets as CSV for --from-file; works while the group has members.",
)
@json_option
@with_cluster
def reset(
    name: str,
    scopes: tuple[TopicScope, ...],
    all_topics: bool,
    execute: bool,
    export: bool,
    as_json: bool,
    cluster: Cluster,
    **targets: Any,
) -> None:
    """Set the committed offsets of GROUP.

    GROUP must have no members. An offset outside the log is replaced by the nearest one inside.
    """
    kind, value = _target(targets)
    _check_scope(kind, scopes, all_topics)
    if export and as_json:
        raise click.UsageError("give --export or --json, not both")
    plan = _read_file(value, name) if kind == "from_file" else {}
    admin = GroupAdmin(cluster)
    committed = _committed(admin, name, may_have_members=export and not execute)
    partitions = _partitions(cluster, name, scopes, committed if all_topics else plan)
    time_ms = value.timestamp_ms if kind == "to_time" else None
    if time_ms is not None:
        note(f"to the first records with timestamp {show_time(time_ms)} or later")
    resets = _Planner(cluster, committed, partitions).plan(kind, value, plan)
    if export:
        print_line(write_plan(resets).rstrip("\n"))
    elif as_json:
        print_json(_entry(name, resets, time_ms, execute))
    else:
        rows = [(*each.partition, each.old, "->", each.new, each.end - each.new) for each in resets]
        columns = ("topic", "partition", "old", "", "new", "new lag")
        print_table(columns, rows, numbers={"old"})
    for line in notes(resets):
        note(line)
    if execute:
        refused = admin.commit_offsets(name, {each.partition: each.new for each in resets})
        note(f"{name}: {counted(len(resets) - len(refused), 'offset')} set")
        report_partitions(refused)
    elif not export:
        note("dry run, nothing was changed; use --execute to set these offsets")


class _Planner:
    """Computes new offsets from the committed offsets and the bounds of the partitions."""

    def __init__(
        self,
        cluster: Cluster,
        committed: dict[TopicPartition, Committed],
        partitions: list[TopicPartition],
    ) -> None:
        self._cluster = cluster
        self._old = {each: committed[each].offset for each in partitions if each in committed}
        self._partitions = partitions
        starts = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
        ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
        self._bounds = {each: Bounds(starts[each].offset, ends[each].offset) for each in partitions}

    def plan(self, kind: str, value: Any, from_file: Offsets) -> list[PartitionReset]:
        if kind == "to_time":
            return self._to_time(value.timestamp_ms)
        resets = []
        for each in self._partitions:
            end = self._bounds[each].end
            if kind == "to_current" and each not in self._old:
                resets.append(PartitionReset(each, None, end, end, limit=Limit.NEVER_COMMITTED))
                continue
            requested = self._requested(kind, value, from_file, each)
            resets.append(bounded(each, self._old.get(each), requested, self._bounds[each]))
        return resets

    def _requested(
        self, kind: str, value: Any, from_file: Offsets, partition: TopicPartition
    ) -> int:
        match kind:
            case "to_earliest":
                return self._bounds[partition].start
            case "to_latest":
                return self._bounds[partition].end
            case "to_current":
                return self._old[partition]
            case "to_offset":
                return int(value)
            case "shift_by":
                return self._shifted(partition, value)
            case _:
                return from_file[partition]

    def _to_time(self, timestamp_ms: int) -> list[PartitionReset]:
        found = list_offsets(self._cluster, dict.fromkeys(self._partitions, timestamp_ms))
        resets = []
        for each in self._partitions:
            old, end, offset = self._old.get(each), self._bounds[each].end, found[each].offset
            if offset < 0:
                resets.append(PartitionReset(each, old, end, end, limit=Limit.NO_LATER_RECORD))
            else:
                resets.append(PartitionReset(each, old, offset, end))
        return resets

    def _shifted(self, partition: TopicPartition, by: int) -> int:
        if partition not in self._old:
            raise click.ClickException(
                f"{partition} has no committed offset to shift; leave it out, or use --to-offset",
            )
        return self._old[partition] + by


def _target(targets: dict[str, Any]) -> tuple[str, Any]:
    given = [
        (kind, value) for kind, value in targets.items() if value is not None and value is not False
    ]
    if not given:
        raise click.UsageError(f"give one of {', '.join(_TARGETS.values())}")
    if len(given) > 1:
        *others, last = (_TARGETS[kind] for kind, _ in given)
        both = "both" if len(given) == 2 else "all of them"
        raise click.UsageError(f"give {', '.join(others)} or {last}, not {both}")
    return given[0]


def _check_scope(kind: str, scopes: tuple[TopicScope, ...], all_topics: bool) -> None:
    if kind == "from_file":
        if scopes or all_topics:
            raise click.UsageError("--from-file names topics; leave out --topic and --all-topics")
    elif scopes and all_topics:
        raise click.UsageError("give --topic or --all-topics, not both")
    elif not scopes and not all_topics:
        raise click.UsageError("give --topic or --all-topics")


def _read_file(path: str, group: str) -> Offsets:
    is_stdin = path == _STDIN
    shown = "stdin" if is_stdin else path
    try:
        data = sys.stdin.buffer.read() if is_stdin else Path(path).read_bytes()
        return read_plan(data.decode(), group)
    except UnicodeDecodeError:
        raise click.UsageError(f"--from-file: {shown} is not UTF-8 text") from None
    except InvalidPlan as error:
        raise click.UsageError(f"--from-file: {shown}: {error}") from None


def _committed(
    admin: GroupAdmin, name: str, *, may_have_members: bool
) -> dict[TopicPartition, Committed]:
    """Return the committed offsets. Raises KafkaError if the group has members but may not."""
    described, refusals = admin.describe_groups([name])
    if name in described:
        if not may_have_members and not described[name].is_idle:
            raise non_empty_group(described[name], "their commits would undo the reset, so ")
    elif refusals[name].code is ErrorCode.GROUP_ID_NOT_FOUND:
        note(f"{name}: the group does not exist yet")
        return {}
    else:
        raise refusals[name]
    committed, refusals = admin.committed_offsets([name])
    if refusals:
        raise refusals[name]
    return committed[name]


def _partitions(
    cluster: Cluster,
    name: str,
    scopes: tuple[TopicScope, ...],
    named: dict[TopicPartition, Any],
) -> list[TopicPartition]:
    """Return the partitions of the scopes, or else the named ones. Raises NoSuchTopic."""
    if not scopes and not named:
        raise click.ClickException(
            f"the group {name!r} has no committed offsets; choose topics with --topic"
        )
    by_topic = group_by_topic(named)
    return partitions_of(
        cluster, scopes or (TopicScope(topic, tuple(each)) for topic, each in by_topic.items())
    )


def _entry(
    name: str, resets: list[PartitionReset], time_ms: int | None, execute: bool
) -> dict[str, Any]:
    return {
        "group": name,
        "execute": execute,
        "time": None if time_ms is None else show_time(time_ms),
        "offsets": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "old": each.old,
                "new": each.new,
                "lag": each.end - each.new,
                "note": each.note or None,
            }
            for each in resets
        ],
    }
