"""The rows of a landed table: columns of the record, then of its value; and dead letters.

A record's topic, partition, offset, timestamp and key keep their names, which every query needs. A
field of the value with such a name becomes `value_<name>`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sawlog.pipeline.formats.parsed import Parsed
from sawlog.pipeline.formats.spark_types import (
    FIRST_MS,
    LAST_MS,
    RECORD_NAMES,
    TIMESTAMP,
    field_column,
    plain_schema,
)

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
HEADER_COLUMNS = {"none": None, "map": pa.map_(pa.string(), pa.binary()), "array": HEADERS}
KEY_COLUMNS = {"binary": pa.binary(), "string": pa.string()}


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The columns of the record, which are the first of every landed row."""

    key: str = "binary"  # a name in KEY_COLUMNS
    headers: str = "none"  # a name in HEADER_COLUMNS

    @property
    def schema(self) -> pa.Schema:
        headers = HEADER_COLUMNS[self.headers]
        return pa.schema(
            [
                pa.field("topic", pa.string()),
                pa.field("partition", pa.int32()),
                pa.field("offset", pa.int64()),
                pa.field("timestamp", TIMESTAMP),
                pa.field("key", KEY_COLUMNS[self.key]),
                *([] if headers is None else [pa.field("headers", headers)]),
            ]
        )

    @property
    def reserved(self) -> frozenset[str]:
        """The names beyond RECORD_NAMES that a field of a value cannot have."""
        return frozenset() if self.headers == "none" else frozenset({"headers"})


USUAL = RecordColumns()
RECORD = USUAL.schema
DEAD = pa.schema(
    [
        *RECORD,
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("error", pa.string()),
    ]
)
"""The columns of a dead letter: enough to send the record again."""


def table_schema(value: pa.Schema, own: RecordColumns = USUAL) -> pa.Schema:
    """The columns of a table for values of that schema."""
    columns = [
        pa.field(field_column(part.name, own.reserved), part.type) for part in plain_schema(value)
    ]
    return pa.schema([*own.schema, *columns])


def value_schema(table: pa.Schema, partition_columns: tuple[str, ...] = ()) -> pa.Schema:
    """The columns of a table that come from values, which its parser needs.

    Partition columns are left out too.
    """
    left_out = {*RECORD_NAMES, *partition_columns}
    return plain_schema(pa.schema([part for part in table if part.name not in left_out]))


def assemble(
    topic: str,
    partition: int,
    chunk: pa.RecordBatch,
    parsed: Parsed,
    columns: RecordColumns = USUAL,
) -> pa.RecordBatch:
    """The rows of a table: the good records of the chunk with their record columns."""
    schema = columns.schema
    own = chunk.select([name for name in chunk.schema.names if name in schema.names])
    kept = own if parsed.kept is None else own.take(parsed.kept)
    rows = parsed.rows
    arrays = _own(topic, partition, kept, KEY_COLUMNS[columns.key])
    if columns.headers != "none":
        headers = _column(kept, "headers", HEADERS)
        if columns.headers == "map":
            from sawlog.pipeline.formats.keys_and_headers import header_map  # slow to import

            headers = header_map(headers)
        arrays.append(headers)
    return pa.RecordBatch.from_arrays(
        [*arrays, *rows.columns], schema=pa.schema([*schema, *rows.schema])
    )


def dead_rows(topic: str, partition: int, chunk: pa.RecordBatch, parsed: Parsed) -> pa.RecordBatch:
    """The rows of the dead letter table: the bad records, each with its reason."""
    chosen = chunk.take(pa.array([row.row for row in parsed.bad], pa.int64()))
    columns = [
        *_own(topic, partition, chosen, pa.binary()),
        _column(chosen, "value", pa.binary()),
        _column(chosen, "headers", HEADERS),
        pa.array([row.reason for row in parsed.bad], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DEAD)


def microseconds(timestamps: pa.Array) -> pa.Array:
    """Convert milliseconds; times outside the years 1 to 9999 become the first or last in range."""
    valid = np.asarray(timestamps.is_valid())
    numbers = np.asarray(timestamps.cast(pa.int64()).fill_null(0))
    clamped = np.clip(numbers, FIRST_MS, LAST_MS) * 1_000
    return pa.array(clamped, mask=~valid).cast(TIMESTAMP)


def _own(topic: str, partition: int, records: pa.RecordBatch, key: pa.DataType) -> list[Any]:
    count = len(records)
    return [
        pa.repeat(pa.scalar(topic, pa.string()), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        records.column("offset"),
        microseconds(records.column("timestamp")),
        _column(records, "key", key),
    ]


def _column(records: pa.RecordBatch, name: str, type_: pa.DataType) -> pa.Array:
    """The column of the records; null if it was not read."""
    if name not in records.schema.names:
        return pa.nulls(len(records), type_)
    return records.column(name).cast(type_)
