"""Confluent's framing: the id of a value's schema before the value, or in a header of its record.

A zero byte and a four-byte id, or a one and a GUID of 16 bytes. The header `__value_schema_id` has
the same form and is read first; then the whole value is the payload. In Protobuf a list of indexes
follows the id: the place of the message in its file. Keys are framed alike, with `__key_schema_id`.
"""

import uuid
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.formats.value_buffers import Values, values_of
from sawlog.pipeline.registry.registry_client import (
    RegisteredSchema,
    RegistryClient,
    SchemaId,
    UnknownSchema,
)

VALUE_HEADER, KEY_HEADER = "__value_schema_id", "__key_schema_id"
ID_BYTES, GUID_BYTES = 5, 17
NO_FRAME = (
    "no Confluent header: expected a zero byte and four of a schema id, or a one and 16 of a GUID"
)
_LARGEST_ID = 2**31 - 1
_INPUT = ("value", "schema_id")
_MAX_INDEXES = 100


class Frames(NamedTuple):
    """The frames of values; every value has one or is bad."""

    ids: list[SchemaId]
    """The distinct ids."""
    codes: npt.NDArray[np.int64]
    """The index of each value's id in `ids`; -1 if the value is bad."""
    starts: npt.NDArray[np.int32]
    """Where the frame ends, and the payload or the message indexes begin."""
    in_header: npt.NDArray[np.bool_]
    bad: dict[int, str]


def parser_input(records: pa.RecordBatch) -> pa.Array:
    """Values with the ids in their headers; the values alone if no record has such a header."""
    values = records.column("value")
    if "headers" not in records.schema.names:
        return values
    found = first_headers(records.column("headers"), VALUE_HEADER)
    if found is None:
        return values
    return pa.StructArray.from_arrays([values.cast(pa.binary()), found], names=list(_INPUT))


def split_input(found: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Values, and the ids in their headers if there are any."""
    if not pa.types.is_struct(found.type):
        return found.cast(pa.binary()), None
    values, headers = found.flatten()
    return values, headers


def read_frames(values: pa.Array, headers: pa.Array | None, header: str = VALUE_HEADER) -> Frames:
    """Read the id of each value; `headers` are those of the name `header`."""
    frames = _frames(values)
    if headers is None or headers.null_count == len(headers):
        return frames
    has_header = np.asarray(pc.is_valid(headers))
    of_headers = _frames(headers)
    ids = [*frames.ids, *of_headers.ids]
    moved = np.where(of_headers.codes < 0, -1, of_headers.codes + len(frames.ids))
    codes = np.where(has_header, moved, frames.codes)
    bad = {row: reason for row, reason in frames.bad.items() if not has_header[row]}
    for row, reason in of_headers.bad.items():
        if has_header[row]:
            bad[row] = f"header {header}: {reason}"
    for row in np.flatnonzero(has_header & np.asarray(pc.is_null(values))).tolist():
        bad[row], codes[row] = "no value", -1
    starts = np.where(has_header, of_headers.starts, frames.starts).astype(np.int32)
    return Frames(ids, codes, starts, has_header, bad)


def schema_words(schema_id: SchemaId) -> str:
    """How reasons name a schema."""
    return f"schema {'id' if isinstance(schema_id, int) else 'GUID'} {schema_id}"


def schema_of_kind(
    client: RegistryClient, schema_id: SchemaId, kind: str, wire_format: str = ""
) -> RegisteredSchema | str:
    """The schema of a value of this format, or why the value is a bad row."""
    try:
        schema = client.schema(schema_id, wire_format)
    except UnknownSchema as error:
        return f"{schema_words(schema_id)}: {error}"
    if schema.kind != kind.upper():
        return f"{schema_words(schema_id)} is of type {schema.kind}, expected {kind}"
    return schema


def message_indexes(data: bytes, start: int) -> tuple[tuple[int, ...], int] | None:
    """The list of indexes at `start` and the position after it; None if it is malformed."""
    count, at = _varint(data, start)
    if count == 0:
        return (0,), at
    if count is None or not 0 < count <= _MAX_INDEXES:
        return None
    indexes: list[int] = []
    for _ in range(count):
        index, at = _varint(data, at)
        if index is None or index < 0:
            return None
        indexes.append(index)
    return tuple(indexes), at


def _varint(data: bytes, at: int) -> tuple[int | None, int]:
    """A zigzag number of up to 32 bits and the position after it; None if it is malformed."""
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            return None, at
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    return None, at


def first_headers(headers: pa.Array, name: str) -> pa.Array | None:
    """The value of the first header of this name of each record; None if no record has one."""
    entries = pc.list_flatten(headers)
    if not len(entries):
        return None
    keys, contents = entries.flatten()
    places = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(keys.cast(pa.string()), name), False)))
    if not len(places):
        return None
    parents = np.asarray(pc.list_parent_indices(headers))[places]
    rows, first = np.unique(parents, return_index=True)
    at = np.zeros(len(headers), np.int64)
    at[rows] = places[first]
    missing = np.ones(len(headers), np.bool_)
    missing[rows] = False
    return contents.take(pa.array(at, mask=missing)).cast(pa.binary())


def _frames(values: pa.Array) -> Frames:
    found = values_of(values)
    lengths = found.ends - found.begins
    is_null = found.begins < 0
    first = np.full(len(lengths), 255, np.uint8)
    filled = np.flatnonzero(~is_null & (lengths > 0))
    first[filled] = found.data[found.begins[filled]]
    with_id = np.flatnonzero((first == 0) & (lengths >= ID_BYTES) & ~is_null)
    with_guid = np.flatnonzero((first == 1) & (lengths >= GUID_BYTES) & ~is_null)
    codes = np.full(len(lengths), -1, np.int64)
    starts = np.zeros(len(lengths), np.int32)
    numbers = _prefix(found, with_id, ID_BYTES).view(">u4").reshape(-1)
    ids, codes[with_id] = np.unique(numbers, return_inverse=True)
    starts[with_id] = ID_BYTES
    guids, inverse = np.unique(
        _prefix(found, with_guid, GUID_BYTES).view("V16").reshape(-1), return_inverse=True
    )
    codes[with_guid] = inverse + len(ids)
    starts[with_guid] = GUID_BYTES
    bad = {
        row: "no value" if is_null[row] else NO_FRAME for row in np.flatnonzero(codes < 0).tolist()
    }
    for row in with_id[numbers > _LARGEST_ID].tolist():
        bad[row] = f"{NO_FRAME}; an id has at most 31 bits"
        codes[row] = -1
    known: list[SchemaId] = [int(one) for one in ids.tolist()]
    known += [str(uuid.UUID(bytes=bytes(one))) for one in guids]
    return Frames(known, codes, starts, np.zeros(len(lengths), np.bool_), bad)


def _prefix(values: Values, rows: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.uint8]:
    """The bytes of these values after the first, up to `length`, one row each."""
    places = values.begins[rows].astype(np.int64)[:, None] + np.arange(1, length)
    return np.ascontiguousarray(values.data[places])
