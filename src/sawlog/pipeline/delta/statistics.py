"""Statistics of a data file for the log: row count, and min, max and null count per column.

They come from Parquet's own statistics. Bounds may be wider than the data, never narrower: long
text is truncated and times are rounded outwards.
"""

import json
import math
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sawlog.pipeline.delta.delta_types import is_list

MAX_COLUMNS = 32  # leaf columns, in order; Delta's own default
_TEXT_CHARACTERS = 32
_LAST_CHARACTER = "\U0010ffff"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Path = tuple[str, ...]


def indexed(schema: pa.Schema) -> list[tuple[int, Path, pa.DataType]]:
    """The leaf columns that get statistics: position in the file, path and type."""
    found = [
        (place, path, kind)
        for place, (path, kind) in enumerate(_leaves(list(schema), ()))
        if path is not None
    ]
    return found[:MAX_COLUMNS]


def bounded_columns(schema: pa.Schema) -> list[str]:
    """The Parquet names of the leaf columns that get min and max."""
    return [".".join(path) for _, path, kind in indexed(schema) if _has_bounds(kind)]


def _leaves(
    fields: list[pa.Field], above: Path | None
) -> Iterator[tuple[Path | None, pa.DataType]]:
    """The leaf columns in Parquet's order. Columns inside lists and maps have no path."""
    for field in fields:
        path = None if above is None else (*above, field.name)
        kind = field.type
        if pa.types.is_struct(kind):
            yield from _leaves(list(kind), path)
        elif is_list(kind):
            yield from _leaves([kind.value_field], None)
        elif pa.types.is_map(kind):
            yield from _leaves([kind.key_field, kind.item_field], None)
        else:
            yield path, kind


def _has_bounds(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )


def to_delta(
    metadata: pq.FileMetaData, schema: pa.Schema, partition_columns: Collection[str] = ()
) -> str:
    """Delta's statistics of a written file as JSON; those of partition columns are in the log."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for place, path, kind in indexed(schema):
        if path[0] in partition_columns:
            continue
        chunks = [
            metadata.row_group(group).column(place).statistics
            for group in range(metadata.num_row_groups)
        ]
        if any(chunk is None or not chunk.has_null_count for chunk in chunks):
            continue
        _set(nulls, path, sum(chunk.null_count for chunk in chunks))
        if not _has_bounds(kind):
            continue
        full = [chunk for chunk in chunks if chunk.num_values]
        bounds = _bounds(full, kind)
        if bounds is not None:
            _set(least, path, bounds[0])
            _set(greatest, path, bounds[1])
    found = {"minValues": least, "maxValues": greatest, "nullCount": nulls}
    stats = {"numRecords": metadata.num_rows, **found}
    return json.dumps(stats, separators=(",", ":"))


def _set(target: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        target = target.setdefault(name, {})
    target[path[-1]] = value


def _bounds(chunks: list[pq.Statistics], kind: pa.DataType) -> tuple[Any, Any] | None:
    if not chunks or not all(chunk.has_min_max for chunk in chunks):
        return None
    raw = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    low = min(chunk.min_raw if raw else chunk.min for chunk in chunks)
    high = max(chunk.max_raw if raw else chunk.max for chunk in chunks)
    return bounds(low, high, kind)


def bounds(low: Any, high: Any, kind: pa.DataType) -> tuple[Any, Any] | None:
    """Min and max in the form of the log; None if they cannot be represented.

    Times and dates are given as numbers. Bounds of one column compare as their values do.
    """
    if pa.types.is_timestamp(kind):
        return _times(low, high)
    if pa.types.is_date(kind):
        return _dates(low, high)
    if pa.types.is_floating(kind):
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None
    if pa.types.is_string(kind):
        return low[:_TEXT_CHARACTERS], _cut_upwards(high)
    return low, high


def _cut_upwards(text: str) -> str:
    return text if len(text) <= _TEXT_CHARACTERS else text[:_TEXT_CHARACTERS] + _LAST_CHARACTER


def _times(low_us: int, high_us: int) -> tuple[str, str] | None:
    try:
        low = _EPOCH + timedelta(milliseconds=low_us // 1000)
        high = _EPOCH + timedelta(milliseconds=-(-high_us // 1000))
    except OverflowError:
        return None  # a year that readers cannot represent
    return _time(low), _time(high)


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z".rjust(24, "0")


def _dates(low: int, high: int) -> tuple[str, str] | None:
    try:
        start = date(1970, 1, 1)
        return tuple(str(start + timedelta(days=days)) for days in (low, high))  # type: ignore[return-value]
    except OverflowError:
        return None
