"""Rewrites rows of a table: delete some and insert others in one version.

Files that may have rows to delete are read and written again without them. If another writer
commits first, the rewrite starts again on the newer snapshot. It is meant for small changes of
small tables (aggregates) and rare changes of large tables (a replay).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from sawlog.pipeline.delta.data_files import DataFile, delete_uncommitted, remove_action
from sawlog.pipeline.delta.delta_log import Action, ActiveFile, Snapshot
from sawlog.pipeline.delta.errors import FileConflict, TooManyConflicts
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.schema_evolution import evolved_schema
from sawlog.pipeline.delta.table import (
    AlreadyCommitted,
    CommittedVersion,
    Table,
    add_actions,
    schema_actions,
    transaction_action,
)

ATTEMPTS = 100


class Rewrite(NamedTuple):
    """A change of rows, applied to a snapshot."""

    operation: str
    touches: Callable[[ActiveFile], bool]  # whether a file may have rows to delete
    looks_at: Sequence[str]  # the columns that `keep` needs
    keep: Callable[[pa.RecordBatch], pa.RecordBatch]  # the rows that stay
    insert: pa.Table | None  # new rows
    transactions: Mapping[str, int]
    is_done: Callable[[Snapshot], bool]


def rewrite(table: Table, change: Rewrite) -> CommittedVersion | AlreadyCommitted:
    """Apply the change to the newest snapshot and commit on that snapshot."""
    for _ in range(ATTEMPTS):
        table.refresh()
        if change.is_done(table.snapshot):
            return AlreadyCommitted(table.version)
        touched = [file for file in table.files() if change.touches(file)]
        replaced, files = _write(table, touched, change)
        try:
            return _commit(table, replaced, files, change)
        except FileConflict:
            delete_uncommitted(table.storage, files)
    raise TooManyConflicts(
        f"{table.path}: {ATTEMPTS} times in a row another writer changed the rows that were to be"
        " rewritten; stop it first"
    )


def _write(
    table: Table, touched: Sequence[ActiveFile], change: Rewrite
) -> tuple[list[ActiveFile], list[DataFile]]:
    """Write the remaining and the new rows; returns the files to remove and the files to add."""
    schema, names = (
        evolved_schema(table.schema, _inserted_columns(table, change)),
        table.partition_columns,
    )
    replaced: list[ActiveFile] = []
    with FileWriter(table.storage, table.partition_by) as writer:
        for file in touched:
            if not _loses_rows(table, file, schema, change):
                continue
            replaced.append(file)
            values = tuple(file.partition_values[name] for name in names)
            for batch in scan_file(table.storage, file.path, schema, file.partition_values):
                kept = change.keep(batch)
                if kept.num_rows:
                    writer.write_into(values, kept)
        if change.insert is not None:
            for batch in change.insert.to_batches():
                writer.write(batch)
        return replaced, writer.close()


def _loses_rows(table: Table, file: ActiveFile, schema: pa.Schema, change: Rewrite) -> bool:
    looked_at = pa.schema([schema.field(name) for name in change.looks_at])
    return any(
        change.keep(batch).num_rows < batch.num_rows
        for batch in scan_file(table.storage, file.path, looked_at, file.partition_values)
    )


def _commit(
    table: Table, replaced: Sequence[ActiveFile], files: Sequence[DataFile], change: Rewrite
) -> CommittedVersion | AlreadyCommitted:
    based_on = table.version
    evolved = _inserted_columns(table, change)

    def plan(snapshot: Snapshot) -> list[Action] | None:
        if snapshot.version != based_on:
            if change.is_done(snapshot):
                return None
            raise FileConflict(f"{table.path} moved on from version {based_on}")
        now = time.time_ns() // 1_000_000
        return [
            *schema_actions(snapshot, evolved),
            *(
                transaction_action(name, version, now)
                for name, version in change.transactions.items()
            ),
            *(remove_action(file, now) for file in replaced),
            *add_actions(snapshot, files, evolved, now),
        ]

    done = table.transact(change.operation, plan)
    if isinstance(done, AlreadyCommitted):
        delete_uncommitted(table.storage, files)
    return done


def _inserted_columns(table: Table, change: Rewrite) -> pa.Schema:
    """The columns of the inserted rows without generated partition columns."""
    if change.insert is None:
        return pa.schema([])
    generated = {entry.name for entry in table.partition_by if entry.unit is not None}
    return pa.schema([field for field in change.insert.schema if field.name not in generated])
