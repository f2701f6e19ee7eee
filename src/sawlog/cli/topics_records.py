"""`sawlog topics records`: delete the oldest records of a topic; a dry run without `--execute`."""

from typing import Any, NamedTuple

import click

from sawlog.cli.cluster_options import TopicScope, partitions_of, with_cluster
from sawlog.cli.option_types import NAME, PARTITION, TEXT, Integer, json_option
from sawlog.cli.output import counted, note, print_json, print_table
from sawlog.cli.start_options import TimePoint, show_time
from sawlog.cli.topics_records_plan import (
    BeyondEnd,
    PartitionDeletion,
    notes,
    plan_deletion,
    plan_deletion_by_time,
    unread,
)
from sawlog.client.admin.admin import Admin
from sawlog.client.admin.configs import Resource
from sawlog.client.admin.list_offsets import EARLIEST, LATEST
from sawlog.client.consumer.start_positions import AtTime
from sawlog.client.net.cluster import Cluster
from sawlog.core.config_api import ResourceType
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition

_OFFSET = Integer(0, 2**63 - 1)


class PartitionTarget(NamedTuple):
    """A partition, and the offset before which its records are deleted, if given."""

    partition: int
    before: int | None


class PartitionTargetType(click.ParamType[PartitionTarget]):
    name = "partition[:offset]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> PartitionTarget:
        if isinstance(value, PartitionTarget):
            return value
        index, colon, offset = TEXT.convert(value, param, ctx).partition(":")
        if not index or (colon and not offset):
            self.fail(f"{value!r}: expected PARTITION or PARTITION:OFFSET (0:1000)", param, ctx)
        before = _OFFSET(offset, param, ctx) if colon else None
        return PartitionTarget(PARTITION(index, param, ctx), before)


@click.group()
def records() -> None:
    """Delete the oldest records of a topic."""


@records.command()
@click.argument("topic", type=NAME)
@click.option("--before", type=_OFFSET, metavar="OFFSET", help="The records before this offset.")
@click.option(
    "--before-time",
    type=TimePoint(),
    metavar="TIME",
    help="The records before the first one with this timestamp or a later one:"
    " 2025-01-31T12:00:00Z (UTC unless a zone is given), 15m ago, or milliseconds since 1970.",
)
@click.option("--all", "everything", is_flag=True, help="All records that there are now.")
@click.option(
    "-p",
    "--partition",
    "targets",
    type=PartitionTargetType(),
    multiple=True,
    metavar="P[:OFFSET]",
    help="Only this partition; with an offset of its own: the records before that. May be"
    " repeated.",
)
@click.option("--execute", is_flag=True, help="Delete the records. Default: only show the plan.")
@json_option
@with_cluster
def delete(
    topic: str,
    before: int | None,
    before_time: AtTime | None,
    everything: bool,
    targets: tuple[PartitionTarget, ...],
    execute: bool,
    as_json: bool,
    cluster: Cluster,
) -> None:
    """Delete the oldest records of TOPIC, permanently.

    The log start offset of each partition moves up; no other offset changes. The disk space is
    freed segment by segment, when all records of a segment are deleted.
    """
    offsets = _own_offsets(targets, before, before_time, everything)
    admin = Admin(cluster)
    _refuse_undeletable(admin, topic)
    scope = TopicScope(topic, tuple(target.partition for target in targets))
    partitions = partitions_of(cluster, [scope])
    time_ms = None if before_time is None else before_time.timestamp_ms
    if time_ms is not None:
        note(f"the records before the first ones with timestamp {show_time(time_ms)} or later")
    if before is not None:
        offsets = dict.fromkeys((partition.partition for partition in partitions), before)
    plan = _plan(admin, partitions, offsets, time_ms)
    behind = _groups_behind(admin, plan)
    if as_json:
        print_json(_entry(topic, plan, time_ms, behind, execute))
    else:
        _print_plan(plan)
    for line in notes(plan):
        note(line)
    for group, count in behind.items():
        note(f"the group {group!r} has not read {count} of these records")
    _finish(admin, topic, plan, execute)


def _finish(admin: Admin, topic: str, plan: list[PartitionDeletion], execute: bool) -> None:
    """Delete the records, or say how; without records there is nothing to send."""
    count = counted(sum(each.deleted for each in plan), "record")
    before = {each.partition: each.before for each in plan if each.deleted}
    if not before:
        note(f"{topic}: there are no records to delete")
    elif execute:
        admin.delete_records(before)
        note(f"{topic}: {count} deleted")
    else:
        note(f"dry run, nothing was deleted; use --execute to delete {count}")


def _own_offsets(
    targets: tuple[PartitionTarget, ...],
    before: int | None,
    before_time: AtTime | None,
    everything: bool,
) -> dict[int, int]:
    """Check that there is one kind of target; return the offsets that partitions have of their own.

    Raises UsageError.
    """
    given = {
        "--before": before is not None,
        "--before-time": before_time is not None,
        "--all": everything,
        "--partition P:OFFSET": any(target.before is not None for target in targets),
    }
    kinds = [option for option, is_given in given.items() if is_given]
    if not kinds:
        raise click.UsageError(f"give one of {', '.join(given)}")
    if len(kinds) > 1:
        both = "both" if len(kinds) == 2 else "all of them"
        raise click.UsageError(f"give {', '.join(kinds[:-1])} or {kinds[-1]}, not {both}")
    own: dict[int, int] = {}
    for target in targets:
        if target.before is None:
            if kinds == ["--partition P:OFFSET"]:
                raise click.UsageError(
                    f"--partition {target.partition} has no offset: give {target.partition}:OFFSET"
                )
        elif own.setdefault(target.partition, target.before) != target.before:
            raise click.UsageError(f"--partition {target.partition} has two offsets; give one")
    return own


def _refuse_undeletable(admin: Admin, topic: str) -> None:
    """Raise an error for topics whose records no broker deletes on request; note compaction."""
    found, refusals = admin.describe_topics([topic])
    for error in refusals.values():
        raise error
    if found[0].is_internal:
        raise click.ClickException(
            f"{topic!r} is an internal topic: brokers do not delete its records on request"
            " (INVALID_TOPIC_EXCEPTION); nothing was deleted"
        )
    resource = Resource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource], names=["cleanup.policy"])[resource]
    policy = next((entry.value or "" for entry in entries), "")
    if "delete" not in policy:
        raise click.ClickException(
            f"{topic!r} has cleanup.policy={policy}: records are deleted only from topics whose"
            " policy includes 'delete' (POLICY_VIOLATION); nothing was deleted. Delete single keys"
            " with records that have a null value, or add the policy: sawlog topics alter"
            f" {topic} --append cleanup.policy=delete"
        )
    if "compact" in policy:
        note(f"{topic}: compaction removes records, so fewer may be left than are counted here")


def _plan(
    admin: Admin,
    partitions: list[TopicPartition],
    offsets: dict[int, int],
    time_ms: int | None,
) -> list[PartitionDeletion]:
    """Plan by time if there is one, else by offset; partitions without an offset lose all records.

    Raises ClickException for an offset beyond the end.
    """
    starts = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(partitions, LATEST))
    if time_ms is not None:
        later = admin.list_offsets(dict.fromkeys(partitions, time_ms))
        return [
            plan_deletion_by_time(each, starts[each].offset, ends[each].offset, later[each].offset)
            for each in partitions
        ]
    try:
        return [
            plan_deletion(each, starts[each].offset, end, offsets.get(each.partition, end))
            for each in partitions
            for end in (ends[each].offset,)
        ]
    except BeyondEnd as error:
        raise click.ClickException(f"{error}; nothing was deleted") from None


def _groups_behind(admin: Admin, plan: list[PartitionDeletion]) -> dict[str, int]:
    """Return the number of records to delete that each group has not read.

    A refusal is only noted: a user who may delete records need not be allowed to see groups.
    """
    try:
        names = [group.id for group in admin.list_groups()]
        committed, _ = admin.committed_offsets(names)
    except KafkaError as error:
        note(f"whether groups have read these records is unknown: {error}")
        return {}
    return unread(plan, committed)


def _print_plan(plan: list[PartitionDeletion]) -> None:
    columns = ("topic", "partition", "start", "", "new start", "end", "deleted", "kept")
    rows = [
        (*each.partition, each.start, "->", each.before, each.end, each.deleted, each.kept)
        for each in plan
    ]
    print_table(columns, rows)


def _entry(
    topic: str,
    plan: list[PartitionDeletion],
    time_ms: int | None,
    behind: dict[str, int],
    execute: bool,
) -> dict[str, Any]:
    return {
        "topic": topic,
        "execute": execute,
        "time": None if time_ms is None else show_time(time_ms),
        "deleted": sum(each.deleted for each in plan),
        "kept": sum(each.kept for each in plan),
        "unread_by_group": behind,
        "partitions": [
            {
                "partition": each.partition.partition,
                "start_offset": each.start,
                "new_start_offset": each.before,
                "end_offset": each.end,
                "deleted": each.deleted,
                "kept": each.kept,
                "note": each.note or None,
            }
            for each in plan
        ],
    }
