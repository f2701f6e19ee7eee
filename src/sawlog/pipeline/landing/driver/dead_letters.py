"""The dead letter table beside a landed table, which stores offsets of its own.

It is committed before the landed table, and only if a batch has bad rows or replaces some. If its
offset is lower than that of the landed table, there were no bad rows since. If it is higher, a
driver died between the two commits, or another driver is about to make the second: its rows at
offsets that have not landed are tentative, and the next batch replaces them. A row that was bad may
be good then, since that batch may be planned differently and infer other columns.

An example with numbers. Both tables have orders-0 up to 500. A batch from 500 to 700 has a bad row
at 620: the dead letter table stores that row and the offset 700, and the driver dies before it
commits the landed table. The next run plans a batch from 500 to 650. The stored 700 is higher than
500, so the dead letters of 500 to 649 are replaced by those of this batch; the offset stays 700.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.data_files import DataFile, delete_uncommitted, remove_action
from sawlog.pipeline.delta.delta_log import Action, ActiveFile, Snapshot
from sawlog.pipeline.delta.errors import TableExists, TableNotFound
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.landed_offsets import OffsetSpan, application_id, offsets_of
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.table import (
    WRITE,
    AlreadyCommitted,
    CommittedVersion,
    Table,
    add_actions,
    transaction_action,
)
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable
from sawlog.pipeline.landing.driver.landed_tables import open_table, table_exists
from sawlog.pipeline.landing.driver.replay_counts import replay_count, same_replay_count
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure

_ATTEMPTS = 20


class DeadLetterCommit(NamedTuple):
    """The commit of a batch's dead letters, to be reverted if the batch does not land.

    The dead letters of the batch that landed are the valid ones. So nothing is replaced for a batch
    that already landed, no batch lands beside the dead letters of another, and a driver whose batch
    lost the race restores what it replaced.
    """

    version: int  # version of the dead letter table after the commit
    replaced: Sequence[ActiveFile] | None  # None: nothing was committed


class _Retry(Exception):
    """Another writer committed since the snapshot was read: try again."""


def open_dead_letters(config: LandedTable, schema: pa.Schema) -> Table:
    """Open the dead letter table, or create it."""
    path, group = config.dead_path, config.group
    if not Table.exists(path):
        try:
            versions = open_table(config).txn_versions if table_exists(config) else {}
            marks = same_replay_count(group, versions)
            return Table.create(path, schema, starts=marks, group=group)
        except TableExists:
            pass
    return Table.open(path)


def commit_dead_letters(
    dead: Table,
    group: str,
    files: Sequence[DataFile],
    spans: Mapping[TopicPartition, OffsetSpan],
    *,
    replays: int,
    is_next: Callable[[], bool],
) -> DeadLetterCommit | None:
    """Make `files` the only dead letters of the batch's offsets.

    Returns None and changes nothing if the batch is no longer the next one. `replays` is the replay
    count at the start of the run: after a later replay the batch is outdated.
    """
    for _ in range(_ATTEMPTS):
        _refresh(dead)
        stored = offsets_of(group, dead.snapshot.transactions)
        spans_to_replace = {
            tp: span for tp, span in spans.items() if stored.get(tp, 0) > span.start
        }
        if not files and not spans_to_replace:
            return DeadLetterCommit(dead.version, None)
        replaced, kept = _without(dead, spans_to_replace)
        batch = _Batch(group, spans, replays, is_next)
        try:
            done = _commit(dead, batch, [*kept, *files], replaced)
        except _Retry:
            delete_uncommitted(dead.storage, kept)
            continue
        if isinstance(done, AlreadyCommitted):
            delete_uncommitted(dead.storage, kept)
            return None
        return DeadLetterCommit(done.version, replaced)
    raise LandingFailure(
        FailureKind.CONFLICT,
        f"others wrote to {dead.path} {_ATTEMPTS} times before this driver could",
    )


def _refresh(dead: Table) -> None:
    """Refresh the table. Raises LandingFailure if it was deleted; the next run checks for loss."""
    try:
        dead.refresh()
    except TableNotFound as error:
        raise LandingFailure(
            FailureKind.CONFLICT, f"the dead letters were deleted: {error}"
        ) from error


def check_unchanged(dead: Table, commit: DeadLetterCommit) -> None:
    """Raise LandingFailure if another driver changed the dead letters since."""
    _refresh(dead)
    if dead.version != commit.version:
        raise LandingFailure(FailureKind.CONFLICT, f"another driver wrote to {dead.path} meanwhile")


def revert_dead_letters(
    dead: Table,
    group: str,
    commit: DeadLetterCommit,
    spans: Mapping[TopicPartition, OffsetSpan],
    *,
    replays: int,
) -> None:
    """Restore the dead letters that were replaced for a batch that did not land."""
    if commit.replaced is None:
        return
    with FileWriter(dead.storage) as writer:
        for file in commit.replaced:
            for batch in scan_file(dead.storage, file.path, dead.schema, file.partition_values):
                writer.write(batch.filter(_is_in_spans(batch, spans)))
        files = writer.close()
    commit_dead_letters(dead, group, files, spans, replays=replays, is_next=lambda: True)


class _Batch(NamedTuple):
    group: str
    spans: Mapping[TopicPartition, OffsetSpan]
    replays: int
    is_next: Callable[[], bool]


def _commit(
    dead: Table, batch: _Batch, files: Sequence[DataFile], replaced: Sequence[ActiveFile]
) -> CommittedVersion | AlreadyCommitted:
    """Commit on the version of the handle, and check the landed table after reading it."""
    based_on = dead.version
    group, spans, replays, is_next = batch

    def plan(snapshot: Snapshot) -> list[Action] | None:
        if replay_count(group, snapshot.transactions) != replays:
            raise LandingFailure(FailureKind.CONFLICT, "a replay restored the dead letters")
        if snapshot.version != based_on:
            raise _Retry
        if not is_next():
            return None
        stored = offsets_of(group, snapshot.transactions)
        now = time.time_ns() // 1_000_000
        return [
            *(
                transaction_action(application_id(group, tp), max(span.end, stored.get(tp, 0)), now)
                for tp, span in sorted(spans.items())
            ),
            *(remove_action(file, now) for file in replaced),
            *add_actions(snapshot, files, None, now),
        ]

    return dead.transact(WRITE, plan)


def _without(
    dead: Table, spans: Mapping[TopicPartition, OffsetSpan]
) -> tuple[list[ActiveFile], list[DataFile]]:
    """The files that have rows of these spans, and new files with their other rows."""
    replaced: list[ActiveFile] = []
    if not spans:
        return replaced, []
    with FileWriter(dead.storage) as writer:
        for file in dead.files():
            if not _may_hold(file, spans):
                continue
            for batch in scan_file(dead.storage, file.path, dead.schema, file.partition_values):
                if pc.any(_is_in_spans(batch, spans)).as_py():
                    replaced.append(file)
                    break
        for file in replaced:
            for batch in scan_file(dead.storage, file.path, dead.schema, file.partition_values):
                writer.write(batch.filter(pc.invert(_is_in_spans(batch, spans))))
        return replaced, writer.close()


def _may_hold(file: ActiveFile, spans: Mapping[TopicPartition, OffsetSpan]) -> bool:
    """Whether the statistics allow rows of these spans; most files are older."""
    highest = json.loads(file.stats or "{}").get("maxValues", {}).get("offset")
    return highest is None or any(highest >= span.start for span in spans.values())


def _is_in_spans(batch: pa.RecordBatch, spans: Mapping[TopicPartition, OffsetSpan]) -> pa.Array:
    found = pa.repeat(pa.scalar(False), batch.num_rows)
    offsets = batch.column("offset")
    for (topic, index), span in spans.items():
        here = pc.and_(
            pc.equal(batch.column("topic"), topic), pc.equal(batch.column("partition"), index)
        )
        within = pc.and_(pc.greater_equal(offsets, span.start), pc.less(offsets, span.end))
        found = pc.or_(found, pc.and_(here, within))
    return pc.fill_null(found, False)
