"""Fits decoded columns to the columns of a table: a value is stored as it was sent, or is a misfit.

The schema of a value may differ from the table: it may be a newer version, or the table was created
from another one. Numbers fit a type that represents them exactly; text columns also take numbers
and booleans as text. A struct lacks fields (they are null) or has fields that the table lacks.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.formats.casts import cast_apart
from sawlog.pipeline.formats.compiled import Flags
from sawlog.pipeline.formats.schema_inference import are_maps
from sawlog.pipeline.formats.spark_types import is_list, type_name

_INTEGERS = pa.decimal128(20, 0)


def fit_columns(
    batch: pa.RecordBatch, columns: pa.Schema, *, strict: bool
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """The batch with these columns, null at misfits, and the reasons by row.

    Fields without a column are ignored; with `strict` a value that has one is a misfit.
    """
    found = {name.lower(): position for position, name in enumerate(batch.schema.names)}
    reasons: dict[int, str] = {}
    arrays: list[pa.Array] = []
    for part in columns:
        position = found.pop(part.name.lower(), None)
        if position is None:
            arrays.append(pa.nulls(batch.num_rows, part.type))
            continue
        sent = batch.column(position)
        array, misfits = fit(sent, part.type, strict=strict)
        for at in np.flatnonzero(misfits).tolist():
            reasons.setdefault(
                at,
                f"field {part.name}: expected {type_name(part.type)},"
                f" found {sent[at].as_py()!r:.60}",
            )
        arrays.append(array)
    if strict:
        for position in found.values():
            for at in np.flatnonzero(_valid(batch.column(position))).tolist():
                reasons.setdefault(
                    at, f"field {batch.schema.names[position]}: the table has no such column"
                )
    return pa.RecordBatch.from_arrays(arrays, schema=columns), reasons


def fit(array: pa.Array, type_: pa.DataType, *, strict: bool) -> tuple[pa.Array, Flags]:
    """Convert a column to a type; returns the array and flags of the misfits."""
    none = np.zeros(len(array), np.bool_)
    if array.type == type_:
        return array, none
    if array.null_count == len(array):
        return pa.nulls(len(array), type_), none
    if pa.types.is_struct(array.type) and pa.types.is_struct(type_):
        return _fit_struct(array, type_, strict=strict)
    if is_list(array.type) and is_list(type_):
        offsets, parents, mask = _list_layout(array)
        items, bad = fit(pc.list_flatten(array), type_.value_type, strict=strict)
        fitted = pa.ListArray.from_arrays(offsets, items, type=type_, mask=mask)
        return fitted, _of_parents(bad, parents, len(array))
    if are_maps(array.type, type_):
        return _fit_map(array, type_, strict=strict)
    if pa.types.is_float64(array.type) and pa.types.is_float32(type_):
        return _fit_floats(array)
    if pa.types.is_decimal(type_) and pa.types.is_integer(array.type):
        array = pc.cast(array, _INTEGERS)  # Arrow refuses integers that could have more digits
    if _is_allowed(array.type, type_):
        return cast_apart(array, type_, lambda some: pc.cast(some, type_))
    return pa.nulls(len(array), type_), _valid(array)


def _fit_struct(
    array: pa.StructArray, type_: pa.DataType, *, strict: bool
) -> tuple[pa.Array, Flags]:
    children = dict(zip((part.name.lower() for part in array.type), array.flatten(), strict=True))
    misfits = np.zeros(len(array), np.bool_)
    fitted: list[pa.Array] = []
    for part in type_:
        child = children.pop(part.name.lower(), None)
        if child is None:
            fitted.append(pa.nulls(len(array), part.type))
            continue
        column, bad = fit(child, part.type, strict=strict)
        fitted.append(column)
        misfits |= bad
    if strict:
        for child in children.values():
            misfits |= _valid(child)
    mask = pc.is_null(array) if array.null_count else None
    return pa.StructArray.from_arrays(fitted, fields=list(type_), mask=mask), misfits


def _fit_map(array: pa.MapArray, type_: pa.DataType, *, strict: bool) -> tuple[pa.Array, Flags]:
    pairs = pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)]))
    offsets, parents, mask = _list_layout(array.cast(pairs))
    keys, items = pc.list_flatten(array.cast(pairs)).flatten()
    items, bad = fit(items, type_.item_type, strict=strict)
    fitted = pa.MapArray.from_arrays(offsets, keys, items, type=type_, mask=mask)
    return fitted, _of_parents(bad, parents, len(array))


def _fit_floats(array: pa.Array) -> tuple[pa.Array, Flags]:
    """Doubles that a float represents exactly."""
    floats = pc.cast(array, pa.float32(), safe=False)
    sent = np.asarray(array.fill_null(0.0))
    stored = np.asarray(floats.fill_null(0.0)).astype(np.float64)
    return floats, (stored != sent) & ~(np.isnan(stored) & np.isnan(sent))


def _list_layout(array: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64], pa.Array | None]:
    """Offsets for the flattened items, the parents of the items, and a mask of null lists."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0))
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = pc.is_null(array) if array.null_count else None
    return pa.array(offsets), np.repeat(np.arange(len(array)), lengths), mask


def _of_parents(bad: Flags, parents: npt.NDArray[np.int64], count: int) -> Flags:
    misfits = np.zeros(count, np.bool_)
    misfits[parents[bad]] = True
    return misfits


def _is_allowed(sent: pa.DataType, column: pa.DataType) -> bool:
    """Whether Arrow's checked cast keeps the value or fails."""
    types = pa.types
    is_integer = types.is_integer(sent)
    is_exact = is_integer or types.is_decimal(sent)
    if types.is_integer(column) or types.is_decimal(column):
        return bool(is_exact)
    if types.is_floating(column):
        return bool(is_integer or types.is_floating(sent))
    if types.is_string(column):
        is_number = is_exact or types.is_floating(sent)
        return bool(is_number or types.is_boolean(sent) or types.is_binary(sent))
    return bool(types.is_binary(column) and types.is_string(sent))


def _valid(array: pa.Array) -> Flags:
    return np.asarray(pc.is_valid(array))
