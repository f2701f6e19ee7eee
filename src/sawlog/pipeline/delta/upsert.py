"""Upserts: rows of a batch replace rows with the same key, exactly once per batch.

A query in update mode emits, batch by batch, the new row of each key that changed. The table stores
the number of the last batch of each query, so a repeated batch changes nothing.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.delta.delta_log import ActiveFile, Snapshot
from sawlog.pipeline.delta.delta_types import stored_schema
from sawlog.pipeline.delta.rewrite import Rewrite, rewrite
from sawlog.pipeline.delta.schema_evolution import conform
from sawlog.pipeline.delta.statistics import Path, bounds
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion, Table


def upsert(
    table: Table, batch: pa.Table, keys: Sequence[str], query_id: str, batch_id: int
) -> CommittedVersion | AlreadyCommitted:
    """Replace the rows that have the keys of the batch, null being a key too.

    If the batch has several rows with one key, the last one is kept.
    """
    unknown = [key for key in keys if key not in batch.column_names]
    if unknown or not keys:
        raise ValueError(f"rows are upserted by columns that they have, not by {unknown or 'none'}")
    rows = last_per_key(batch, keys)
    key_rows = _comparable_keys(rows, keys)
    ranges = _ranges(rows, keys)

    def keep(found: pa.RecordBatch) -> pa.RecordBatch:
        return found.filter(pc.invert(_is_among(_comparable_keys(found, keys), key_rows)))

    def is_done(snapshot: Snapshot) -> bool:
        return snapshot.transactions.get(query_id, -1) >= batch_id

    return rewrite(
        table,
        Rewrite(
            "MERGE",
            touches=lambda file: bool(rows.num_rows) and _may_hold(file, ranges),
            looks_at=tuple(keys),
            keep=keep,
            insert=rows if rows.num_rows else None,
            transactions={query_id: batch_id},
            is_done=is_done,
        ),
    )


def _stored(batch: pa.Table) -> pa.Table:
    schema = stored_schema(batch.schema)
    batches = [conform(part, schema) for part in batch.combine_chunks().to_batches()]
    return pa.Table.from_batches(batches, schema)


def last_per_key(batch: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The last row of each key of a batch, with the types that a table stores."""
    rows = _stored(batch)
    key_rows = _comparable_keys(rows, keys)
    position = pa.array(range(rows.num_rows), pa.int64())
    numbered = key_rows.append_column("\0row", position)
    last = numbered.group_by(key_rows.column_names).aggregate([("\0row", "max")])["\0row_max"]
    return rows if len(last) == rows.num_rows else rows.take(last)


def _comparable_keys(rows: pa.Table | pa.RecordBatch, keys: Sequence[str]) -> pa.Table:
    """Key columns in a form in which null equals null: is-null flags, and values without nulls."""
    columns: dict[str, pa.ChunkedArray] = {}
    for place, key in enumerate(keys):
        for name, part in _flat(rows[key], f"k{place}"):
            columns[f"{name}n"] = pc.is_null(part)
            columns[name] = pc.fill_null(part, _zero(part.type))
    return pa.table(columns)


def _flat(column: Any, name: str) -> list[tuple[str, Any]]:
    """Flatten a struct, such as a window, into its fields."""
    if not pa.types.is_struct(column.type):
        return [(name, column)]
    parts = [(f"{name}_valid", pc.is_valid(column))]
    for place, field in enumerate(column.type):
        parts += _flat(pc.struct_field(column, field.name), f"{name}_{place}")
    return parts


def _zero(kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.scalar("" if pa.types.is_string(kind) else b"", kind)
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        whole = pa.int64() if pa.types.is_timestamp(kind) else pa.int32()
        return pa.scalar(0, whole).cast(kind)
    return pa.scalar(False if pa.types.is_boolean(kind) else 0, kind)


def _is_among(rows: pa.Table, key_rows: pa.Table) -> pa.Array:
    """For each row, whether its key is among `key_rows`."""
    position = pa.array(range(rows.num_rows), pa.int64())
    numbered = rows.append_column("\0row", position)
    found = numbered.join(key_rows, key_rows.column_names, join_type="left semi", use_threads=False)
    return pc.is_in(position, value_set=found["\0row"].combine_chunks())


def _ranges(rows: pa.Table, keys: Sequence[str]) -> dict[Path, tuple[Any, Any]]:
    """Min and max of each key column of the batch, in the form of the log."""
    found: dict[Path, tuple[Any, Any]] = {}
    for path, column in _parts(rows, keys):
        if pa.types.is_timestamp(column.type):
            values = column.cast(pa.int64())
        elif pa.types.is_date32(column.type):
            values = column.cast(pa.int32())
        elif pa.types.is_integer(column.type) or pa.types.is_string(column.type):
            values = column
        else:
            continue
        extremes = pc.min_max(values).as_py()
        if extremes["min"] is not None:
            formatted = bounds(extremes["min"], extremes["max"], column.type)
            if formatted is not None:
                found[path] = formatted
    return found


def _parts(rows: pa.Table, keys: Sequence[str]) -> Iterator[tuple[Path, pa.ChunkedArray]]:
    waiting: list[tuple[Path, pa.ChunkedArray]] = [((key,), rows[key]) for key in keys]
    while waiting:
        path, column = waiting.pop()
        if pa.types.is_struct(column.type):
            inner = [part.name for part in column.type]
            waiting += [((*path, name), pc.struct_field(column, name)) for name in inner]
        else:
            yield path, column


def _may_hold(file: ActiveFile, ranges: Mapping[Path, tuple[Any, Any]]) -> bool:
    """False if the statistics of a file exclude all keys of the batch."""
    if file.stats is None:
        return True
    stats = json.loads(file.stats)
    for path, (low, high) in ranges.items():
        least = _at(stats.get("minValues"), path)
        greatest = _at(stats.get("maxValues"), path)
        if least is None or greatest is None or _at(stats.get("nullCount"), path) != 0:
            continue
        if high < least or low > greatest:
            return False
    return True


def _at(values: Any, path: Path) -> Any:
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return values
