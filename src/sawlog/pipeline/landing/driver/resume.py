"""Resumes a table that stopped because records were lost, without these records.

One version of the table moves its offsets to where the topic is now and records what was skipped.
Then the dead letter table follows: dead letters of a batch that did not land are deleted, and its
offsets are not beyond those of the table. Both tables count the resume like a replay
(`replay_counts.py`), so that a landing that runs meanwhile notices, and nothing lands before the
second step. In a replay the dead letters are ahead, in a resume the table is.

An example with numbers. The table has orders-0 up to 500. The log now begins at 600: the offset
becomes 600, and 500 to 599 are recorded as skipped. If the topic was created again, the offset
becomes the start of the new log, usually 0, and the rows of the old topic stay.
"""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Topic
from sawlog.core.ids import NO_TOPIC_ID, TopicId, TopicPartition, format_topic_id
from sawlog.pipeline.delta.errors import FileConflict
from sawlog.pipeline.delta.landed_offsets import application_id, offsets_of
from sawlog.pipeline.delta.restore import restore_offsets
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.formats.landed_rows import DEAD
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, appends_rows
from sawlog.pipeline.landing.driver.dead_letter_counts import (
    DEAD_TABLE,
    counts_after_replay,
    lost_dead_letters,
)
from sawlog.pipeline.landing.driver.dead_letter_retry import finish_retry
from sawlog.pipeline.landing.driver.dead_letters import open_dead_letters
from sawlog.pipeline.landing.driver.landed_tables import LandingTable, open_table, table_exists
from sawlog.pipeline.landing.driver.replay_counts import replay_count, replay_count_id
from sawlog.pipeline.landing.driver.skipped_records import (
    SKIPPED,
    SkippedRecords,
    as_json,
    former_offsets,
    former_transactions,
    skipped_property,
    skipped_records,
)
from sawlog.pipeline.landing.driver.table_setup import (
    TOPIC_ID,
    check_owner,
    check_topics,
    find_topics,
    landed_topic_id,
    landed_topics,
    next_offsets,
)
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.source.offset_json import Offsets

RESUME = "RESUME"  # the operation in the table's history
_ATTEMPTS = 20
_DELETED = "retention or DeleteRecords deleted them before they landed"
_CREATED_AGAIN = "the topic was deleted and created again"
_SHORT = (
    "the broker lost them after they had landed, and gives their offsets to other records; the"
    " table keeps its rows"
)


class Loss(NamedTuple):
    """What a table has lost, as of one version of it, and where it can continue."""

    landed: Offsets  # the offsets of the table
    moves: Offsets  # the new offsets of partitions that lost records
    skipped: tuple[SkippedRecords, ...]
    topic_ids: Mapping[str, bytes]
    resumes: int  # the replay count after the resume
    loses_dead_letters: bool


class _Moved(Exception):
    """Another driver committed since the loss was assessed."""


def assess_loss(cluster: Cluster, config: LandedTable, table: LandingTable) -> Loss:
    """Compare the table with its topics. Raises LandingFailure if there is no topic to land."""
    check_owner(table, config)
    topics = find_topics(cluster, config)
    check_topics(table, config, topics)
    landed = table.offsets(config.group)
    resumes = 1 + replay_count(config.group, table.txn_versions)
    at_ms = time.time_ns() // 1_000_000
    known = [topic for topic in topics if topic.name in landed_topics(table, config.group)]
    same = [topic for topic in known if not _is_another(landed_topic_id(table, topic.name), topic)]
    moves, found = _lost_in_log(cluster, config, next_offsets(table, config, same))
    for topic in known:
        if topic not in same:
            starts, former = _created_again(cluster, topic, landed)
            moves, found = moves | starts, found + former
    dead_letters = lost_dead_letters(config, table)
    skipped = [
        SkippedRecords(*tp, first, last, landed.get(tp, 0), reason, at_ms, resumes)
        for tp, first, last, reason in found
    ]
    for tp, (rows, first) in dead_letters.items():
        reason = f"the dead letter table was deleted, with {rows} of them"
        skipped.append(SkippedRecords(*tp, first, None, landed.get(tp, 0), reason, at_ms, resumes))
    ids = {str(topic.name): bytes(topic.id) for topic in known if topic.id != NO_TOPIC_ID}
    return Loss(landed, moves, tuple(skipped), ids, resumes, bool(dead_letters))


def _is_another(landed_id: bytes, topic: Topic) -> bool:
    """Whether the topic was created again; unknown ids count as the same."""
    return NO_TOPIC_ID not in (landed_id, topic.id) and landed_id != topic.id


_Range = tuple[TopicPartition, int, int | None, str]


def _lost_in_log(
    cluster: Cluster, config: LandedTable, landed: Offsets
) -> tuple[Offsets, list[_Range]]:
    moves: Offsets = {}
    found: list[_Range] = []
    begins = _offsets(cluster, landed, EARLIEST)
    ends = _offsets(cluster, landed, LATEST)
    # Records of open transactions land later, so an offset never moves beyond this end.
    readable = _offsets(cluster, landed, LATEST, read_committed=config.read_committed)
    for tp, at in sorted(landed.items()):
        if ends[tp] < at:
            moves[tp] = min(ends[tp], readable[tp])
            found.append((tp, ends[tp], at - 1, _SHORT))
        elif begins[tp] > at:
            moves[tp] = begins[tp]
            found.append((tp, at, begins[tp] - 1, _DELETED))
    return moves, found


def _created_again(cluster: Cluster, topic: Topic, landed: Offsets) -> tuple[Offsets, list[_Range]]:
    """Start at the beginning of the new topic; partitions that it lacks start at 0 if added."""
    partitions = [partition_of(topic.name, index) for index in topic.partitions]
    begins = _offsets(cluster, partitions, EARLIEST)
    former = {tp: at for tp, at in landed.items() if tp.topic == topic.name}
    moves = {tp: begins.get(tp, 0) for tp in sorted({*former, *partitions})}
    found: list[_Range] = [(tp, at, None, _CREATED_AGAIN) for tp, at in sorted(former.items())]
    found += [(tp, 0, begin - 1, _DELETED) for tp, begin in sorted(begins.items()) if begin > 0]
    return moves, found


def _offsets(
    cluster: Cluster, partitions: Sequence[TopicPartition] | Offsets, mark: int, *,
    read_committed: bool = False,
) -> Offsets:  # fmt: skip
    wanted = dict.fromkeys(partitions, mark)
    found = list_offsets(cluster, wanted, read_committed=read_committed)
    return {partition: entry.offset for partition, entry in found.items()}


def resume(cluster: Cluster, config: LandedTable, *, accept_loss: bool) -> list[SkippedRecords]:
    """Move the table to where its topic is now, if `accept_loss`; returns what is skipped.

    A resume that died between its two commits is finished. Raises LandingFailure if the table has
    lost nothing, or if a replay has to be finished first.
    """
    if not table_exists(config):
        raise _refused(f"there is no table in {config.path} to resume")
    table = open_table(config)
    for _ in range(_ATTEMPTS):
        table.refresh()
        done = replay_count(config.group, table.txn_versions)
        dead_count = _dead_letter_count(config, done)
        if dead_count > done:
            raise _refused(
                f"a replay of {config.name!r} is running, or died before its end; in that case run"
                " it again first"
            )
        if dead_count < done:
            if accept_loss:
                _finish(config, table)
            return _newest(table, done)
        if accept_loss and Table.exists(config.dead_path):
            finish_retry(config, table, Table.open(config.dead_path))
        loss = assess_loss(cluster, config, table)
        if not loss.skipped:
            raise _refused(f"{config.name!r} has lost no records: there is nothing to accept")
        is_set_back = any(at < loss.landed.get(tp, 0) for tp, at in loss.moves.items())
        if is_set_back and not appends_rows(config):
            raise _refused(
                f"the rows of {config.name!r} are ordered by offset, and those of its topic start"
                " again: land it in a table of another name"
            )
        if not accept_loss:
            return list(loss.skipped)
        try:
            _commit(config, table, loss)
        except _Moved:
            continue
        _finish(config, table)
        return list(loss.skipped)
    raise LandingFailure(
        FailureKind.CONFLICT,
        f"others wrote to {table.path} {_ATTEMPTS} times before this resume could",
    )


def _commit(config: LandedTable, table: LandingTable, loss: Loss) -> None:
    """Commit the offsets and what was skipped on a version with the assessed offsets."""
    group = config.group
    dead = open_dead_letters(config, DEAD)

    def plan() -> tuple[dict[str, str], dict[str, int]]:
        stored = table.txn_versions
        if (
            offsets_of(group, stored) != loss.landed
            or replay_count(group, stored) != loss.resumes - 1
        ):
            raise _Moved
        properties = {SKIPPED: skipped_property(table.properties, loss.skipped)}
        versions = {
            **{application_id(group, tp): offset for tp, offset in loss.moves.items()},
            replay_count_id(group): loss.resumes,
            **former_transactions(group, _former(group, stored, loss)),
        }
        for name, topic_id in loss.topic_ids.items():
            properties[TOPIC_ID + name] = format_topic_id(TopicId(topic_id))
        if loss.loses_dead_letters:
            properties[DEAD_TABLE] = dead.id
            versions |= counts_after_replay(group, stored, {})
        return properties, versions

    info = {"topic": str(config.selection), "skipped": as_json(loss.skipped)}
    table.set_properties(plan, RESUME, info)


def _former(group: str, stored: Mapping[str, int], loss: Loss) -> Offsets:
    """Where rows stay whose offsets newer records get: up to the landed offset."""
    known = former_offsets(group, stored)
    return {
        tp: max(known.get(tp, 0), loss.landed[tp])
        for tp, offset in loss.moves.items()
        if offset < loss.landed.get(tp, 0)
    }


def _finish(config: LandedTable, table: LandingTable) -> None:
    """Let the dead letters follow the table."""
    group = config.group
    dead = open_dead_letters(config, DEAD)
    resumes = replay_count(group, table.txn_versions)
    landed = {entry.topic_partition: entry.landed for entry in _newest(table, resumes)}
    for _ in range(_ATTEMPTS):
        dead.refresh()
        before = replay_count(group, dead.snapshot.transactions)
        if before >= resumes:
            return
        stored = dead.offsets(group)
        # First without the rows of a batch that did not land, then, in the same version, back to
        # the offset of the table: the rows of a former topic stay.
        tentative = {tp: at for tp, at in landed.items() if stored.get(tp, 0) > at}
        offsets = table.offsets(group)
        lowered = {
            application_id(group, tp): min(stored[tp], offsets.get(tp, 0))
            for tp in landed
            if tp in stored
        }
        try:
            restore_offsets(
                dead, group, tentative, {replay_count_id(group): resumes},
                {replay_count_id(group): before}, other_txn_versions=lowered,
            )  # fmt: skip
        except FileConflict:
            continue
        return
    raise LandingFailure(
        FailureKind.CONFLICT, f"others wrote to {dead.path} {_ATTEMPTS} times before this resume"
    )


def _dead_letter_count(config: LandedTable, otherwise: int) -> int:
    if not Table.exists(config.dead_path):
        return otherwise
    dead = Table.open(config.dead_path)
    return replay_count(config.group, dead.snapshot.transactions)


def _newest(table: LandingTable, resumes: int) -> list[SkippedRecords]:
    return [entry for entry in skipped_records(table.properties) if entry.resume == resumes]


def _refused(text: str) -> LandingFailure:
    return LandingFailure(FailureKind.INVALID, text)
