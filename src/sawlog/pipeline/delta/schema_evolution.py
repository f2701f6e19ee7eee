"""Schema evolution: how the columns of data and of a table fit together.

A table only gains columns, and fields of structs, at the end. The type of a column never changes,
except for bigint that is widened to double (`widening.py`). A batch conforms to a wider schema by
nulls.
"""

import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.delta.delta_types import is_list
from sawlog.pipeline.delta.errors import SchemaMismatch
from sawlog.pipeline.formats.spark_types import type_name


def evolved_schema(now: pa.Schema, found: pa.Schema) -> pa.Schema:
    """The schema `now` with the columns of `found` added.

    Raises SchemaMismatch for a column of another type, or a name that differs only in case.
    """
    return pa.schema(_union(list(now), list(found), ""))


def _union(now: list[pa.Field], found: list[pa.Field], where: str) -> list[pa.Field]:
    known = {field.name: position for position, field in enumerate(now)}
    by_lower_name = {field.name.lower(): field.name for field in now}
    union = list(now)
    for field in found:
        path = f"{where}{field.name}"
        if (position := known.get(field.name)) is not None:
            union[position] = pa.field(field.name, _joined(now[position].type, field.type, path))
            continue
        other = by_lower_name.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise SchemaMismatch(
                f"column {path!r} differs from {other!r} only in case, and Delta does not tell"
                " them apart"
            )
        known[field.name] = len(union)
        union.append(pa.field(field.name, field.type))
    return union


def _joined(now: pa.DataType, found: pa.DataType, path: str) -> pa.DataType:
    if now == found:
        return now
    if pa.types.is_struct(now) and pa.types.is_struct(found):
        return pa.struct(_union(list(now), list(found), f"{path}."))
    if is_list(now) and is_list(found):
        inner = _joined(now.value_type, found.value_type, f"{path}.element")
        return pa.list_(pa.field("element", inner))
    if pa.types.is_map(now) and pa.types.is_map(found) and now.key_type == found.key_type:
        return pa.map_(now.key_type, _joined(now.item_type, found.item_type, f"{path}.value"))
    raise SchemaMismatch(
        f"column {path!r} is of type {type_name(now)} in the table and {type_name(found)} in the"
        " data"
    )


def missing_columns(known: pa.Schema, found: pa.Schema) -> list[str]:
    """The paths of columns and fields of `found` that `known` lacks or has with another type."""
    return _missing(list(known), list(found), "")


def _missing(known: list[pa.Field], found: list[pa.Field], where: str) -> list[str]:
    types = {field.name: field.type for field in known}
    paths: list[str] = []
    for field in found:
        path = f"{where}{field.name}"
        if field.name in types:
            paths += _missing_inside(types[field.name], field.type, path)
        else:
            paths.append(path)
    return paths


def _missing_inside(known: pa.DataType, found: pa.DataType, path: str) -> list[str]:
    if known == found or (pa.types.is_float64(known) and pa.types.is_int64(found)):
        return []  # a bigint column that was widened since is readable as double
    if pa.types.is_struct(known) and pa.types.is_struct(found):
        return _missing(list(known), list(found), f"{path}.")
    if is_list(known) and is_list(found):
        return _missing_inside(known.value_type, found.value_type, f"{path}.element")
    if pa.types.is_map(known) and pa.types.is_map(found) and known.key_type == found.key_type:
        return _missing_inside(known.item_type, found.item_type, f"{path}.value")
    return [path]


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to `schema`: missing columns are null, other columns are dropped."""
    if batch.schema.equals(schema):
        return batch
    columns = []
    for field in schema:
        position = batch.schema.get_field_index(field.name)
        if position < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
        else:
            columns.append(_cast(batch.column(position), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type.equals(kind):
        return column
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type):
        return _to_micros(column, kind)
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        return _cast_struct(column, kind)
    if is_list(kind) and is_list(column.type) and not pa.types.is_fixed_size_list(column.type):
        if pa.types.is_large_list(column.type):
            column = column.cast(pa.list_(column.type.value_type))
        return _cast_list(column, kind)
    return column.cast(kind)


def _to_micros(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast timestamps to microseconds; times out of range become the first or last in range."""
    try:
        return column.cast(kind, safe=False) if column.type.unit == "ns" else column.cast(kind)
    except pa.ArrowInvalid:
        unit = {"s": 1_000_000, "ms": 1_000}[column.type.unit]
        most = (2**63 - 1) // unit
        ticks = column.cast(pa.int64())
        bounded = pc.max_element_wise(
            pc.min_element_wise(ticks, most, skip_nulls=False), -most, skip_nulls=False
        )
        return pc.multiply(bounded, unit).cast(kind)


def _cast_struct(column: pa.StructArray, kind: pa.DataType) -> pa.Array:
    parts = []
    for field in kind:
        position = column.type.get_field_index(field.name)
        if position < 0:
            parts.append(pa.nulls(len(column), field.type))
        else:
            parts.append(_cast(column.field(position), field.type))
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)


def _cast_list(column: pa.ListArray, kind: pa.DataType) -> pa.Array:
    """Cast the values of a list array; its offsets refer to the whole values buffer."""
    values = _cast(column.values, kind.value_type)
    mask = column.is_null() if column.null_count else None
    if column.offset and mask is not None:  # from_arrays accepts no mask with sliced offsets
        column = pa.concat_arrays([column, column.slice(0, 0)])
        values = _cast(column.values, kind.value_type)
    return pa.ListArray.from_arrays(column.offsets, values, type=kind, mask=mask)
