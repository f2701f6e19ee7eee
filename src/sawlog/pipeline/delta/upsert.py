"""Aggregates: rows that replace earlier rows of the same key, exactly once for each batch.

A query in update mode gives, batch after batch, the new row of each key that changed. The table
keeps the number of the last batch of each query, so a batch that comes again changes nothing.
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
from sawlog.pipeline.delta.table import AlreadyCommitted, Committed, Table


def upsert(
    table: Table, batch: pa.Table, keys: Sequence[str], query_id: str, batch_id: int
) -> Committed | AlreadyCommitted:
    """Puts the rows of a batch in the place of those with the same keys, null being a key too.
    Of several rows with one key in the batch the last stays.
    """
    unknown = [key for key in keys if key not in batch.column_names]
    if unknown or not keys:
        raise ValueError(f"rows are merged by columns that they have, not by {unknown or 'none'}")
    rows = last_per_key(batch, keys)
    marks = _marks(rows, keys)
    ranges = _ranges(rows, keys)

    def keep(found: pa.RecordBatch) -> pa.RecordBatch:
        return found.filter(pc.invert(_is_among(_marks(found, keys), marks)))

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
    """The last row of each key of a batch, as a table stores it."""
    rows = _stored(batch)
    marks = _marks(rows, keys)
    position = pa.array(range(rows.num_rows), pa.int64())
    numbered = marks.append_column("\0row", position)
    last = numbered.group_by(marks.column_names).aggregate([("\0row", "max")])["\0row_max"]
    return rows if len(last) == rows.num_rows else rows.take(last)


def _marks(rows: pa.Table | pa.RecordBatch, keys: Sequence[str]) -> pa.Table:
    """Keys in a form in which null equals null: whether there is a value, and which."""
    columns: dict[str, pa.ChunkedArray] = {}
    for place, key in enumerate(keys):
        for name, part in _flat(rows[key], f"k{place}"):
            columns[f"{name}n"] = pc.is_null(part)
            columns[name] = pc.fill_null(part, _zero(part.type))
    return pa.table(columns)


def _flat(column: Any, name: str) -> list[tuple[str, Any]]:
    """A window is a struct of two times."""
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


def _is_among(rows: pa.Table, marks: pa.Table) -> pa.Array:
    """For each row whether its keys are among the marks."""
    position = pa.array(range(rows.num_rows), pa.int64())
    numbered = rows.append_column("\0row", position)
    found = numbered.join(marks, marks.column_names, join_type="left semi", use_threads=False)
    return pc.is_in(position, value_set=found["\0row"].combine_chunks())


def _ranges(rows: pa.Table, keys: Sequence[str]) -> dict[Path, tuple[Any, Any]]:
    """Per part of the keys the least and the greatest value of the batch, as the log spells it."""
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
            spelled = bounds(extremes["min"], extremes["max"], column.type)
            if spelled is not None:
                found[path] = spelled
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
    """False where the statistics of a file say that none of its keys is in the batch."""
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
