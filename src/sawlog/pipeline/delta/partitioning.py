"""Partition columns: plain columns, or the date, hour or month of a timestamp.

`date(timestamp)` generates a column `timestamp_date`; `date(timestamp) as day` names it `day`. The
values of partition columns are in the log, in directory names, and in the files; Delta's readers
take them from the log, Iceberg's from the files. Files of earlier versions of Sawlog lack them.
"""

import difflib
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from sawlog.core.config_warnings import near_names
from sawlog.pipeline.delta.errors import InvalidColumn
from sawlog.pipeline.formats.spark_types import type_name

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
_FORMATS = {"date": "%Y-%m-%d", "hour": "%Y-%m-%d-%H", "month": "%Y-%m"}
_EXPRESSION = re.compile(
    r"\s*(?:(\w+)\s*\(\s*([^()]+?)\s*\)|([^()]+?))(?:\s+as\s+([^()]+?))?\s*", re.I
)
_PLAIN = frozenset(string.ascii_letters + string.digits + "_.-~")
_FIRST = datetime(1, 1, 2, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, tzinfo=UTC)
_DIRECTORY_BYTES = 200  # a file name may have 255

Values = tuple[str | None, ...]


class PartitionBy(NamedTuple):
    """One partition column, its source column, and the unit if it is generated."""

    name: str
    column: str
    unit: str | None  # date, hour or month; None for a plain column

    def __str__(self) -> str:
        return self.column if self.unit is None else f"{self.unit}({self.column}) as {self.name}"


def parse(expression: str) -> PartitionBy:
    """Parse an expression such as `date(timestamp) as day`. Raises ValueError."""
    match = _EXPRESSION.fullmatch(expression)
    if match is None:
        raise ValueError(
            f"{expression!r} is no partition: it is a column, or date, hour or month of one, such"
            " as date(timestamp) or date(timestamp) as day"
        )
    unit, of, plain, alias = match.groups()
    if unit is None:
        if alias is not None:
            raise ValueError(f"{expression!r}: a plain column keeps its name")
        return PartitionBy(plain, plain, None)
    if (unit := unit.lower()) not in _FORMATS:
        near = difflib.get_close_matches(unit, _FORMATS, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{expression!r}: date, hour or month of a column, not {unit}{meant}")
    return PartitionBy(alias or f"{of}_{unit}", of, unit)


def add_partition_columns(schema: pa.Schema, partition_by: Sequence[PartitionBy]) -> pa.Schema:
    """The schema of the table: the columns of the rows plus generated partition columns."""
    for entry in partition_by:
        position = schema.get_field_index(entry.column)
        if position < 0:
            near = near_names(entry.column, schema.names)
            raise InvalidColumn(f"there is no column {entry.column!r} to partition by{near}")
        kind = schema.field(position).type
        if entry.unit is None:
            if pa.types.is_nested(kind) or pa.types.is_binary(kind):
                raise InvalidColumn(
                    f"{entry.column!r} is of type {type_name(kind)}: no partitions by that"
                )
            continue
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            raise InvalidColumn(
                f"{entry.column!r} is of type {type_name(kind)}: {entry.unit}() needs a time"
            )
        if schema.get_field_index(entry.name) >= 0:
            raise InvalidColumn(
                f"{entry.unit}({entry.column}) would make a column {entry.name!r}, which the rows"
                f" have already: name it, {entry.unit}({entry.column}) as another_name"
            )
        schema = schema.append(
            pa.field(entry.name, pa.date32() if entry.unit == "date" else pa.string())
        )
    return schema


def _with_generated(schema: pa.Schema, partition_by: Sequence[PartitionBy]) -> pa.Schema:
    """The columns of rows plus the generated ones that they lack."""
    there = [entry for entry in partition_by if entry.name not in schema.names]
    return add_partition_columns(schema, there)


def split_by_partition(
    batch: pa.RecordBatch, partition_by: Sequence[PartitionBy]
) -> Iterator[tuple[Values, pa.RecordBatch]]:
    """Split a batch into the rows of each partition, in order, with all partition columns.

    Each part comes with the partition values as the log stores them, and its partition columns have
    these values: the empty string, for example, is null.
    """
    if not partition_by:
        yield (), batch
        return
    whole = _with_generated(batch.schema, partition_by)
    labels = [_label(batch, entry) for entry in partition_by]
    if batch.num_rows == 0:
        return
    codes, distinct = _codes(labels)
    if len(distinct) == 1:
        yield distinct[0], _with_values(batch, whole, partition_by, distinct[0])
        return
    for code, values in enumerate(distinct):
        rows = batch.filter(pc.equal(codes, code))
        yield values, _with_values(rows, whole, partition_by, values)


def _with_values(
    batch: pa.RecordBatch, schema: pa.Schema, partition_by: Sequence[PartitionBy], values: Values
) -> pa.RecordBatch:
    """The rows of one partition with its values in the partition columns."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    for entry, value in zip(partition_by, values, strict=True):
        kind = schema.field(entry.name).type
        columns[entry.name] = constant(value, kind, batch.num_rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def constant(value: str | None, kind: pa.DataType, rows: int) -> pa.Array:
    """Repeat a partition value, which the log stores as text, for each row."""
    return pa.repeat(_parsed(value, kind), rows)


def _parsed(value: str | None, kind: pa.DataType) -> pa.Scalar:
    if value is None:
        return pa.scalar(None, kind)
    text = pa.array([value])
    if pa.types.is_timestamp(kind):
        return text.cast(pa.timestamp("us")).cast(kind)[0]
    return text.cast(kind)[0]


def _codes(labels: list[pa.Array]) -> tuple[pa.Array, list[Values]]:
    """Number the distinct combinations of values in order of appearance."""
    codes, distinct = _numbered(labels[0])
    combined: list[Values] = [(value,) for value in distinct.to_pylist()]
    for label in labels[1:]:
        more, values = _numbered(label)
        texts = values.to_pylist()
        codes, pairs = _numbered(pc.add(pc.multiply(codes, len(texts)), more))
        combined = [
            (*combined[pair // len(texts)], texts[pair % len(texts)]) for pair in pairs.to_pylist()
        ]
    return codes, combined


def _numbered(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.cast(pa.int64()), encoded.dictionary


def _label(batch: pa.RecordBatch, entry: PartitionBy) -> pa.Array:
    """The column as the text that the log stores; null and the empty string are null."""
    column = batch.column(entry.column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if entry.unit is not None:
        return _time_label(column, _FORMATS[entry.unit])
    if pa.types.is_timestamp(column.type):
        return _time_label(column.cast(pa.timestamp("us", column.type.tz)), "%Y-%m-%d %H:%M:%S")
    text = column.cast(pa.string())
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def is_lost(column: pa.Array) -> pa.Array:
    """Whether each value would be null as a partition value: the empty string, and times that have
    no label.
    """
    if pa.types.is_timestamp(column.type):
        is_bad = pc.invert(_has_label(column))
    elif pa.types.is_string(column.type):
        is_bad = pc.equal(column, "")
    else:
        return pa.repeat(pa.scalar(False), len(column))
    return pc.fill_null(is_bad, False)


def _has_label(times: pa.Array) -> pa.Array:
    return pc.and_(
        pc.greater_equal(times, pa.scalar(_FIRST, times.type)),
        pc.less(times, pa.scalar(_LAST, times.type)),
    )


def _time_label(column: pa.Array, style: str) -> pa.Array:
    """Format times as text. Distinct hours are formatted once, since formatting every row is slow.

    Times outside the years 1 to 9999 have no label; the row still keeps its time.
    """
    if pa.types.is_timestamp(column.type):
        column = pc.if_else(_has_label(column), column, pa.scalar(None, column.type))
        if style in _FORMATS.values():
            column = pc.floor_temporal(column, unit="hour")
    encoded = column.dictionary_encode()
    texts = pc.strftime(encoded.dictionary, format=style)
    return texts.take(encoded.indices)


def partition_directory(names: Sequence[str], values: Values, *, ascii_only: bool = False) -> str:
    """The directory in Hive's format; long values are cut, the log has them in full."""

    def escaped(text: str) -> str:
        return _cut(_in_ascii(_quoted(text)) if ascii_only else _quoted(text))

    return "/".join(
        f"{escaped(name)}={NULL_DIRECTORY if value is None else escaped(value)}"
        for name, value in zip(names, values, strict=True)
    )


def path_has_values(names: Sequence[str], values: Mapping[str, str | None], path: str) -> bool:
    """Whether the directory of a file has the partition values that the log has."""
    wanted = partition_directory(names, tuple(values[name] for name in names))
    exact = all(_cut(text := _quoted(value)) == text for value in values.values() if value)
    return exact and path.rpartition("/")[0] == wanted


def _quoted(text: str) -> str:
    """Escape a value as Hive does; characters beyond ASCII stay as they are."""
    return "".join(
        letter if letter in _PLAIN or letter > "\x7f" else f"%{ord(letter):02X}" for letter in text
    )


def _in_ascii(text: str) -> str:
    return "".join(letter if letter.isascii() else quote(letter) for letter in text)


def _cut(text: str) -> str:
    return text.encode()[:_DIRECTORY_BYTES].decode(errors="ignore")
