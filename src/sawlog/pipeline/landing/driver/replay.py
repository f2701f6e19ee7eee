"""Replay: land again from an offset or a time on, into the same table or a new one.

Into the same table, the rows from there on are deleted and the offsets set back in one version. The
dead letters are restored first. Both tables count replays, so that a concurrent landing notices
(`replay_counts.py`). Then the landing continues from the table's offsets as usual.
"""

from collections.abc import Mapping
from dataclasses import replace

from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.consumer.consumer import AtOffset, AtTime
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.errors import FileConflict
from sawlog.pipeline.delta.restore import restore_offsets
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import table_path
from sawlog.pipeline.formats.landed_rows import DEAD
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable
from sawlog.pipeline.landing.driver.dead_letter_counts import (
    count_dead_letters,
    counts_after_replay,
    listed_offsets,
    set_dead_letter_table,
)
from sawlog.pipeline.landing.driver.dead_letter_retry import finish_retry
from sawlog.pipeline.landing.driver.dead_letters import open_dead_letters
from sawlog.pipeline.landing.driver.landed_tables import open_table, require_delta, table_exists
from sawlog.pipeline.landing.driver.replay_counts import (
    replay_count,
    replay_count_id,
    replay_starts,
    replay_transactions,
)
from sawlog.pipeline.landing.driver.skipped_records import former_offsets
from sawlog.pipeline.landing.driver.table_setup import (
    check_owner,
    check_table,
    create_table,
    find_topics,
    partitions_of,
)
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.source.offset_json import Offsets

_ATTEMPTS = 20

From = AtOffset | AtTime | Mapping[int | TopicPartition, int]


class InvalidReplayStart(Exception):
    """The topic has no records at the start of the replay; the message says what it has."""


def resolve_replay_start(cluster: Cluster, config: LandedTable, start: From) -> Offsets:
    """The start offset of each named partition, or of all.

    Offsets that the broker no longer has are rejected, since their rows could be deleted but not
    landed again. Raises InvalidReplayStart for offsets that never existed.
    """
    source = str(config.selection)
    partitions = partitions_of(find_topics(cluster, config))
    latest = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    ends = {partition: latest[partition].offset for partition in partitions}
    if isinstance(start, AtTime):
        return _by_time(cluster, source, start, ends)
    if isinstance(start, AtOffset):
        if start.offset > max(ends.values()):
            raise InvalidReplayStart(
                f"the topic {source!r} ends before offset {start.offset}: its partitions end at"
                f" {listed_offsets(config, ends, ', ')}; nothing was changed"
            )
        # Shorter partitions have no records from there on and continue at their end.
        wanted = {partition: min(start.offset, end) for partition, end in ends.items()}
    else:
        wanted = _by_partition(config, start, ends)
    firsts = list_offsets(cluster, dict.fromkeys(wanted, EARLIEST))
    for partition, offset in sorted(wanted.items()):
        if offset < firsts[partition].offset:
            raise _refused(
                f"{partition} begins at offset {firsts[partition].offset}; what lies before, from"
                f" {offset} on, is gone from the topic and could not be landed again"
            )
    return wanted


def _by_time(cluster: Cluster, source: str, start: AtTime, ends: Offsets) -> Offsets:
    found = list_offsets(cluster, dict.fromkeys(ends, start.timestamp_ms))
    if all(found_offset.offset < 0 for found_offset in found.values()):
        raise InvalidReplayStart(
            f"the topic {source!r} has no record of that time or later; nothing was changed"
        )
    return {
        tp: ends[tp] if found_offset.offset < 0 else found_offset.offset
        for tp, found_offset in found.items()
    }


def _by_partition(
    config: LandedTable, start: Mapping[int | TopicPartition, int], ends: Offsets
) -> Offsets:
    wanted: Offsets = {}
    for named, offset in start.items():
        if not isinstance(named, int):
            wanted[named] = offset
        elif config.selection.is_one:
            wanted[partition_of(config.selection.names[0], named)] = offset
        else:
            raise InvalidReplayStart(
                "the table has several topics: name that of each partition, such as"
                f" {min(ends).topic}/0:17"
            )
    unknown = {partition: offset for partition, offset in wanted.items() if partition not in ends}
    if unknown:
        raise InvalidReplayStart(
            f"the topic {str(config.selection)!r} has"
            f" {_counted_partitions(config, ends)}, not {_named(config, unknown)}"
        )
    beyond = {tp: ends[tp] for tp, offset in sorted(wanted.items()) if offset > ends[tp]}
    if beyond:
        raise InvalidReplayStart(
            f"partitions of the topic {str(config.selection)!r} end before that, at"
            f" {listed_offsets(config, beyond, ', ')}; nothing was changed"
        )
    return wanted


def _counted_partitions(config: LandedTable, ends: Offsets) -> str:
    if config.selection.is_one:
        return f"the partitions 0 to {len(ends) - 1}"
    return f"{len(ends)} partitions"


def _named(config: LandedTable, offsets: Offsets) -> str:
    is_one = config.selection.is_one
    return ", ".join(
        str(tp.partition) if is_one else f"{tp.topic}/{tp.partition}" for tp in sorted(offsets)
    )


def restore_to(cluster: Cluster, config: LandedTable, starts: Offsets) -> Offsets:
    """Restore the table and its dead letters to these offsets; returns those that changed.

    A repeated call after a crash restores as far back as the first would have. The checks of a
    landing apply, since deleted rows could not be landed again otherwise. Lost dead letters are
    forgotten: those from these offsets on land again, and the replay is the decision to go on
    without the others.
    """
    require_delta(config, "a replay in place", "replay it into a new one (--into)")
    if not Table.exists(config.path):
        raise _refused(f"there is no table in {config.path} to replay into")
    table = Table.open(config.path)
    check_table(table, config, find_topics(cluster, config))
    _check_keyed_replay(table, config, starts)
    dead = open_dead_letters(config, DEAD)
    group = config.group
    finish_retry(config, table, dead)
    _check_former_rows(config, table, dead, starts)
    replays, replay_from = _restore_dead_letters(table, dead, group, starts)
    set_dead_letter_table(config, table, dead, lose=True)
    table.refresh()
    restored = _earlier_offsets(table, group, replay_from)
    dead.refresh()
    counts = count_dead_letters(dead.storage, [file.path for file in dead.files()])
    dead_letter_counts = counts_after_replay(group, table.snapshot.transactions, counts)
    restore_offsets(
        table, group, restored, {replay_count_id(group): replays},
        other_txn_versions=dead_letter_counts,
    )  # fmt: skip
    return restored


def _check_keyed_replay(table: Table, config: LandedTable, starts: Offsets) -> None:
    """A keyed table has no older rows to restore: only a replay of all records is possible."""
    stored = table.offsets(config.group)
    later = [tp for tp, end in stored.items() if end and starts.get(tp, end)]
    if config.upsert is not None and later:
        wanted = listed_offsets(config, {tp: starts.get(tp, stored[tp]) for tp in later}, ", ")
        raise _refused(
            f"{config.name!r} has the last row of each key only, so it cannot be restored to"
            f" {wanted}: replay it from offset 0, or into a new table (--into)"
        )


def _check_former_rows(config: LandedTable, table: Table, dead: Table, starts: Offsets) -> None:
    """Raise LandingFailure if rows would be deleted that the topic no longer has."""
    group, versions = config.group, table.snapshot.transactions
    if replay_count(group, dead.snapshot.transactions) < replay_count(group, versions):
        raise _refused(
            f"a resume of {config.name!r} is running, or died before its end; in that case run"
            " it again first"
        )
    former = former_offsets(group, versions)
    later = {**_earlier_offsets(table, group, starts), **_earlier_offsets(dead, group, starts)}
    kept = [f"{tp} below offset {former[tp]}" for tp in later if starts[tp] < former.get(tp, 0)]
    if kept:
        raise _refused(
            f"the table has rows of {', '.join(kept)} from before a resume; the topic no longer has"
            " their records, so the replay would lose them: replay into a new table (--into), or"
            " from there on"
        )


def _restore_dead_letters(
    table: Table, dead: Table, group: str, starts: Offsets
) -> tuple[int, Offsets]:
    """Restore the dead letters; returns the number of this replay and its start offsets.

    The start is no later than that of a replay that died, or runs, between its two commits.
    """
    for _ in range(_ATTEMPTS):
        dead.refresh()
        table.refresh()
        versions = dead.snapshot.transactions
        count = replay_count(group, versions)
        done = replay_count(group, table.snapshot.transactions)
        replay_from = _earliest(starts, replay_starts(group, versions) if count > done else {})
        replays = 1 + max(count, done)
        versions_to_store = replay_transactions(group, replays, replay_from, versions)
        restored = _earlier_offsets(dead, group, replay_from)
        try:
            restore_offsets(
                dead, group, restored, versions_to_store, {replay_count_id(group): count}
            )
        except FileConflict:
            continue  # another replay committed first: its offsets count too
        return replays, replay_from
    raise LandingFailure(
        FailureKind.CONFLICT,
        f"others replayed {table.path} {_ATTEMPTS} times before this replay could",
    )


def _earliest(one: Offsets, other: Offsets) -> Offsets:
    return {tp: min(offsets[tp] for offsets in (one, other) if tp in offsets)
            for tp in sorted({*one, *other})}  # fmt: skip


def _earlier_offsets(table: Table, group: str, starts: Mapping[TopicPartition, int]) -> Offsets:
    """The offsets that are before those of the table: nothing is set forward."""
    stored = table.offsets(group)
    return {tp: start for tp, start in sorted(starts.items()) if stored.get(tp, 0) > start}


def replay_target(config: LandedTable, name: str) -> LandedTable:
    """The same landing into a table of another name, with its own group."""
    path = table_path(config.path).sibling(name)
    return replace(config, name=name, path=path, group=f"{config.group}-{name}")


def create_replay_table(cluster: Cluster, config: LandedTable, starts: Offsets) -> bool:
    """Create a table that starts at these offsets; other partitions start at their end.

    False if the table exists: a replay that died continues when it is run again.
    """
    if table_exists(config):
        check_owner(open_table(config), config)
        return False
    topics = find_topics(cluster, config)
    partitions = partitions_of(topics)
    ends = list_offsets(
        cluster, dict.fromkeys(partitions, LATEST), read_committed=config.read_committed
    )
    create_table(config, topics, {tp: starts.get(tp, ends[tp].offset) for tp in partitions})
    return True


def _refused(text: str) -> LandingFailure:
    return LandingFailure(FailureKind.INVALID, text)
