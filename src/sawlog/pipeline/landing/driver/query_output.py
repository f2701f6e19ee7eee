"""The table that a query fills: rows appended or upserted, each batch exactly once.

The table stores the number of the last batch of the query. A query whose checkpoint was lost starts
again with a new id: its first batch has all rows of its sources and replaces the rows of the query
before it.
"""

import json
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from sawlog.pipeline.delta.data_files import DataFile, delete_uncommitted, remove_action
from sawlog.pipeline.delta.delta_log import Action, Snapshot
from sawlog.pipeline.delta.delta_types import stored_schema
from sawlog.pipeline.delta.errors import SchemaMismatch, TableExists
from sawlog.pipeline.delta.keys import last_per_key
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.partitioning import PartitionBy, parse
from sawlog.pipeline.delta.table import (
    WRITE,
    CommittedVersion,
    Table,
    add_actions,
    transaction_action,
)
from sawlog.pipeline.delta.table_storage import open_storage
from sawlog.pipeline.delta.upsert import upsert
from sawlog.pipeline.delta.widening import evolve_columns
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY = "sawlog.query"  # table property of tables that queries fill; others are not changed


class WrittenBatch(NamedTuple):
    rows: int
    files: int
    file_bytes: int
    version: int


def open_query_table(path: str, schema: pa.Schema, partition_by: Sequence[str], name: str) -> Table:
    """Open the table of a query, or create it, and add new columns of the query."""
    if not Table.exists(path):
        try:
            return Table.create(path, schema, partition_by, properties={QUERY: name})
        except TableExists:
            pass
    table = Table.open(path)
    if QUERY not in table.snapshot.metadata.get("configuration", {}):
        raise LandingFailure(
            FailureKind.INVALID, f"the table in {path} was not created by a query; use another name"
        )
    if [parse(entry) for entry in partition_by] != table.partition_by:
        has = ", ".join(map(str, table.partition_by)) or "nothing"
        raise LandingFailure(
            FailureKind.INVALID,
            f"the table in {path} is partitioned by {has}, the file says otherwise; delete the"
            " table and its checkpoint, or use another name",
        )
    try:
        evolve_columns(table, schema)
    except SchemaMismatch as error:
        raise LandingFailure(
            FailureKind.INVALID,
            f"the query of {name!r} gives other columns than its table has: {error}; delete the"
            " table and its checkpoint, or use another name",
        ) from None
    return table


def is_new_query(table: Table, query_id: str) -> bool:
    """Whether this query has committed nothing yet and the table has rows of another."""
    return query_id not in table.snapshot.transactions and bool(table.snapshot.files)


def append_batch(
    table: Table, frame: "DataFrame", query_id: str, batch_id: int, *, replace: bool
) -> WrittenBatch | None:
    """Write the rows in tasks and commit them on the driver.

    None if the table already has the batch, or if there is nothing to commit: a batch without rows
    only advances the watermark.
    """
    files = write_files(table, frame)
    if not files and not replace:
        return None
    return _commit(table, files, query_id, batch_id, replace=replace)


def _commit(
    table: Table, files: Sequence[DataFile], query_id: str, batch_id: int, *, replace: bool
) -> WrittenBatch | None:
    def plan(snapshot: Snapshot) -> list[Action] | None:
        if snapshot.transactions.get(query_id, -1) >= batch_id:
            return None
        now = time.time_ns() // 1_000_000
        old = sorted(snapshot.files.values()) if replace else []
        return [
            transaction_action(query_id, batch_id, now),
            *(remove_action(file, now) for file in old),
            *add_actions(snapshot, files, None, now),
        ]

    done = table.transact(WRITE, plan)
    if not isinstance(done, CommittedVersion):
        delete_uncommitted(table.storage, files)
        return None
    rows = sum(file.rows for file in files)
    return WrittenBatch(rows, len(files), sum(file.size for file in files), done.version)


def replace_by_key(
    table: Table, frame: "DataFrame", keys: Sequence[str], query_id: str, batch_id: int
) -> WrittenBatch | None:
    """Replace all rows of the table by the last row of each key of the batch."""
    rows = last_per_key(frame.toArrow(), keys)
    with FileWriter(table.storage, table.partition_by) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
        files = writer.close()
    return _commit(table, files, query_id, batch_id, replace=True)


def upsert_batch(
    table: Table,
    frame: "DataFrame",
    keys: Sequence[str],
    query_id: str,
    batch_id: int,
) -> WrittenBatch | None:
    """Upsert the rows of the batch."""
    rows = frame.toArrow()
    if not rows.num_rows:
        return None
    done = upsert(table, rows, keys, query_id, batch_id)
    if not isinstance(done, CommittedVersion):
        return None
    return WrittenBatch(rows.num_rows, 1, 0, done.version)


def write_files(table: Table, frame: "DataFrame") -> list[DataFile]:
    """Write the rows in a Spark job whose result is the data files."""
    root = table.path
    by: list[PartitionBy] = [parse(str(entry)) for entry in table.partition_by]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with FileWriter(open_storage(root), by) as writer:
            for batch in batches:
                writer.write(batch)
            texts = [file.to_json() for file in writer.close()]
        yield pa.RecordBatch.from_pydict({"file": pa.array(texts, pa.string())})

    rows = frame.mapInArrow(work, "file string").collect()
    return [DataFile.from_json(row[0]) for row in rows]


def arrow_schema(frame: "DataFrame") -> pa.Schema:
    """The columns of a query with the types that a table stores."""
    from sawlog.pipeline.delta.delta_types import from_json

    return stored_schema(from_json(json.dumps(json.loads(frame.schema.json()))))
