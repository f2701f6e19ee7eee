"""Keys of rows: which rows have the same key, the last row per key, files that cannot have a key.

Two keys are the same if all their columns are; null is a value too.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.delta.delta_log import ActiveFile
from sawlog.pipeline.delta.delta_types import stored_schema
from sawlog.pipeline.delta.schema_evolution import conform
from sawlog.pipeline.delta.statistics import Path, bounds

ROW = "\0row"  # position of a row; no column of a table has this name


def _stored(batch: pa.Table) -> pa.Table:
    schema = stored_schema(batch.schema)
    batches = [conform(part, schema) for part in batch.combine_chunks().to_batches()]
    return pa.Table.from_batches(batches, schema)


def last_per_key(batch: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The last row of each key of a batch, in their order, with the types that a table stores."""
    rows = _stored(batch)
    key_rows = comparable_keys(rows, keys)
    position = _positions(rows)
    numbered = key_rows.append_column(ROW, position)
    last = numbered.group_by(key_rows.column_names).aggregate([(ROW, "max")])[f"{ROW}_max"]
    return rows if len(last) == rows.num_rows else rows.take(pa.array(np.sort(last.to_numpy())))


def _positions(rows: pa.Table) -> pa.Array:
    return pa.array(np.arange(rows.num_rows, dtype=np.int64))


def comparable_keys(rows: pa.Table | pa.RecordBatch, keys: Sequence[str]) -> pa.Table:
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


def is_among(rows: pa.Table, key_rows: pa.Table) -> pa.Array:
    """For each row, whether its key is among `key_rows`."""
    position = _positions(rows)
    numbered = rows.append_column(ROW, position)
    found = numbered.join(key_rows, key_rows.column_names, join_type="left semi", use_threads=False)
    return pc.is_in(position, value_set=found[ROW].combine_chunks())


def key_ranges(rows: pa.Table, keys: Sequence[str]) -> dict[Path, tuple[Any, Any]]:
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


def may_hold_keys(file: ActiveFile, ranges: Mapping[Path, tuple[Any, Any]]) -> bool:
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
