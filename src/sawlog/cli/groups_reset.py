"""`sawlog groups reset`: sets the offsets of a group that nobody runs; without `--execute` it only
tells what it would do.
"""

import sys
from pathlib import Path
from typing import Any

import click

from sawlog.cli.common_options import json_option, with_cluster
from sawlog.cli.groups_members import occupied
from sawlog.cli.groups_plan import (
    BadPlan,
    Bounds,
    Limit,
    Move,
    bounded,
    notes,
    read_plan,
    write_plan,
)
from sawlog.cli.option_types import NAME, WholeNumber
from sawlog.cli.output import counted, note, print_json, print_line, print_table
from sawlog.cli.partition_options import TopicScope, partitions_of, report_partitions, topic_option
from sawlog.cli.start_options import TimePoint, show_time
from sawlog.client.admin.group_offsets import Committed
from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import group_by_topic
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import TopicPartition

_OFFSET = WholeNumber(0, 2**63 - 1)
_SHIFT = WholeNumber(-(2**63), 2**63 - 1)
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
@click.option("--all-topics", is_flag=True, help="Whatever the group has committed offsets of.")
@click.option("--to-earliest", is_flag=True, help="To the first record that is there.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-current", is_flag=True, help="To what is committed; to the end where none is.")
@click.option("--to-offset", type=_OFFSET, metavar="OFFSET", help="To this one.")
@click.option(
    "--to-time",
    type=TimePoint(),
    metavar="TIME",
    help="To the first record of this time or later: 2025-01-31T12:00:00Z (UTC where no zone is"
    " given), 15m ago, or milliseconds since 1970.",
)
@click.option("--shift-by", type=_SHIFT, metavar="N", help="Ahead by N records; back where N < 0.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="CSV",
    help="As the file says: topic,partition,offset; - reads stdin.",
)
@click.option(
    "--execute", is_flag=True, help="Do it; without this only what would be done is told."
)
@click.option(
    "--export",
    is_flag=True,
    help="Print the new offsets as CSV, for --from-file; also while there are members.",
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
    """Set the offsets of GROUP while it has no members.

    An offset that the log does not reach is taken as the nearest that it does.
    """
    kind, value = _target(targets)
    _check_scope(kind, scopes, all_topics)
    if export and as_json:
        raise click.UsageError("give --export or --json, not both")
    plan = _read_file(value, name) if kind == "from_file" else {}
    admin = GroupAdmin(cluster)
    committed = _offsets(admin, name, may_run=export and not execute)
    where = _partitions(cluster, name, scopes, committed if all_topics else plan)
    time_ms = value.timestamp_ms if kind == "to_time" else None
    if time_ms is not None:
        note(f"to the first records of {show_time(time_ms)} or later")
    moves = _Planner(cluster, committed, where).moves(kind, value, plan)
    if export:
        print_line(write_plan(moves).rstrip("\n"))
    elif as_json:
        print_json(_entry(name, moves, time_ms, execute))
    else:
        rows = [(*move.partition, move.old, "->", move.new, move.end - move.new) for move in moves]
        columns = ("topic", "partition", "old", "", "new", "lag then")
        print_table(columns, rows, numbers={"old"})
    for line in notes(moves):
        note(line)
    if execute:
        refused = admin.commit_offsets(name, {move.partition: move.new for move in moves})
        note(f"{name}: {counted(len(moves) - len(refused), 'offset')} set")
        report_partitions(refused)
    elif not export:
        note("nothing was changed; give --execute to do it")


class _Planner:
    """The offsets of some partitions as they are, from which a plan is made."""

    def __init__(
        self,
        cluster: Cluster,
        committed: dict[TopicPartition, Committed],
        where: list[TopicPartition],
    ) -> None:
        self._cluster = cluster
        self._old = {each: committed[each].offset for each in where if each in committed}
        self._where = where
        firsts = list_offsets(cluster, dict.fromkeys(where, EARLIEST))
        ends = list_offsets(cluster, dict.fromkeys(where, LATEST))
        self._bounds = {each: Bounds(firsts[each].offset, ends[each].offset) for each in where}

    def moves(self, kind: str, value: Any, plan: Offsets) -> list[Move]:
        if kind == "to_time":
            return self._to_time(value.timestamp_ms)
        moves = []
        for each in self._where:
            end = self._bounds[each].end
            if kind == "to_current" and each not in self._old:
                moves.append(Move(each, None, end, end, limit=Limit.NEVER_COMMITTED))
                continue
            wanted = self._wanted(kind, value, plan, each)
            moves.append(bounded(each, self._old.get(each), wanted, self._bounds[each]))
        return moves

    def _wanted(self, kind: str, value: Any, plan: Offsets, partition: TopicPartition) -> int:
        match kind:
            case "to_earliest":
                return self._bounds[partition].first
            case "to_latest":
                return self._bounds[partition].end
            case "to_current":
                return self._old[partition]
            case "to_offset":
                return int(value)
            case "shift_by":
                return self._shifted(partition, value)
            case _:
                return plan[partition]

    def _to_time(self, timestamp_ms: int) -> list[Move]:
        found = list_offsets(self._cluster, dict.fromkeys(self._where, timestamp_ms))
        moves = []
        for each in self._where:
            old, end, offset = self._old.get(each), self._bounds[each].end, found[each].offset
            if offset < 0:
                moves.append(Move(each, old, end, end, limit=Limit.LATE))
            else:
                moves.append(Move(each, old, offset, end))
        return moves

    def _shifted(self, partition: TopicPartition, by: int) -> int:
        if partition not in self._old:
            raise click.ClickException(
                f"{partition} has no committed offset to shift; name the partitions that have one,"
                " or give --to-offset",
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
            raise click.UsageError("--from-file names its topics itself; leave out --topic")
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
    except BadPlan as error:
        raise click.UsageError(f"--from-file: {shown}: {error}") from None


def _offsets(admin: GroupAdmin, name: str, *, may_run: bool) -> dict[TopicPartition, Committed]:
    """What the group has committed; KafkaError where somebody runs it, and may not."""
    described, refusals = admin.describe_groups([name])
    if name in described:
        if not may_run and not described[name].is_idle:
            raise occupied(described[name], "commits would undo a reset, so ")
    elif refusals[name].code is ErrorCode.GROUP_ID_NOT_FOUND:
        note(f"{name}: there is no such group yet")
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
    """Those of the scopes, or those named; NoSuchTopic where one is not there."""
    if not scopes and not named:
        raise click.ClickException(
            f"the group {name!r} has no committed offsets; name topics with --topic"
        )
    by_topic = group_by_topic(named)
    return partitions_of(
        cluster, scopes or (TopicScope(topic, tuple(each)) for topic, each in by_topic.items())
    )


def _entry(name: str, moves: list[Move], time_ms: int | None, execute: bool) -> dict[str, Any]:
    return {
        "group": name,
        "execute": execute,
        "time": None if time_ms is None else show_time(time_ms),
        "offsets": [
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "old": move.old,
                "new": move.new,
                "lag": move.end - move.new,
                "note": move.note or None,
            }
            for move in moves
        ],
    }
