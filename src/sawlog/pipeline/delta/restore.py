"""Restore a table to given offsets: later rows are deleted and the offsets are set back.

Both happen in one version, so a landing lands the deleted records again exactly once. A landing
that runs meanwhile gets an offset conflict and starts again from the table's offsets.
"""

import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.delta_log import ActiveFile, Snapshot
from sawlog.pipeline.delta.errors import FileConflict, TableError
from sawlog.pipeline.delta.landed_offsets import application_id, offsets_of
from sawlog.pipeline.delta.rewrite import Rewrite, rewrite
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion, Table


def restore_offsets(
    table: Table,
    group: str,
    starts: Mapping[TopicPartition, int],
    txn_versions: Mapping[str, int] | None = None,
    expected: Mapping[str, int] | None = None,
    other_txn_versions: Mapping[str, int] | None = None,
) -> CommittedVersion | AlreadyCommitted:
    """Delete the rows from `starts` on and store these offsets.

    `txn_versions` and `other_txn_versions` are versions of further `txn` actions, by appId, to
    store in the same commit; the restore counts as done if the offsets and the `txn_versions` are
    reached. Raises TableError if the table has not reached one of the offsets, since rows would be
    lost, and FileConflict if the stored versions differ from `expected`.
    """
    versions = dict(txn_versions or {})

    def is_done(snapshot: Snapshot) -> bool:
        for name, version in (expected or {}).items():
            if snapshot.transactions.get(name, 0) != version:
                raise FileConflict(f"{table.path}: {name} is no longer at {version}")
        stored = offsets_of(group, snapshot.transactions)
        for partition, start in sorted(starts.items()):
            if stored.get(partition, 0) < start:
                raise TableError(
                    f"{table.path} has {partition} up to offset {stored.get(partition, 0)}: it"
                    f" cannot be restored to {start}"
                )
        is_there = all(stored.get(partition, 0) == start for partition, start in starts.items())
        return is_there and all(
            snapshot.transactions.get(name, 0) >= version for name, version in versions.items()
        )

    return rewrite(
        table,
        Rewrite(
            "DELETE",
            touches=lambda file: _may_hold(file, starts),
            looks_at=("topic", "partition", "offset"),
            keep=lambda batch: batch.filter(pc.invert(_is_beyond(batch, starts))),
            insert=None,
            transactions={
                **{application_id(group, tp): start for tp, start in starts.items()},
                **versions,
                **(other_txn_versions or {}),
            },
            is_done=is_done,
        ),
    )


def _is_beyond(batch: pa.RecordBatch, starts: Mapping[TopicPartition, int]) -> pa.Array:
    beyond = pa.repeat(pa.scalar(False), batch.num_rows)
    for (topic, partition), start in starts.items():
        mine = pc.and_(
            pc.equal(batch.column("topic"), topic), pc.equal(batch.column("partition"), partition)
        )
        beyond = pc.or_(beyond, pc.and_(mine, pc.greater_equal(batch.column("offset"), start)))
    return pc.fill_null(beyond, False)


def _may_hold(file: ActiveFile, starts: Mapping[TopicPartition, int]) -> bool:
    if file.stats is None:
        return True
    stats = json.loads(file.stats)
    least, greatest = stats.get("minValues", {}), stats.get("maxValues", {})
    if "offset" not in greatest:
        return True
    return any(
        greatest["offset"] >= start
        and least.get("partition", partition) <= partition <= greatest.get("partition", partition)
        for (_, partition), start in starts.items()
    )
