"""Decodes Avro records of one writer's schema to columns, by fastavro."""

import datetime as dt
import io
import json
import uuid
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa

from sawlog.pipeline.formats.avro_schemas import from_avro, parsed
from sawlog.pipeline.formats.decoded import Decoded, without_rows
from sawlog.pipeline.formats.parsed import FormatError
from sawlog.pipeline.formats.spark_types import field_column, type_name

_CHECKED = {"time-millis": "sawlog-time-millis", "time-micros": "sawlog-time-micros"}
_MIDNIGHT = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_US = 86_400_000_000


class NotARecord(Exception):
    """A value that is not a record; the message is the reason."""


class AvroDecoder:
    """Decodes records; raises FormatError if the schema has no columns.

    With a reader's schema, records are resolved to it as Avro specifies: fields by name or alias,
    defaults for missing ones, promoted numbers.
    """

    def __init__(
        self, text: str, references: Sequence[str] = (), reader: str | None = None
    ) -> None:
        self.writer = _parsed(text, references)
        self._reader = None if reader is None else _parsed(reader, ())
        fields = from_avro(text, references)
        if reader is not None:
            fields = from_avro(reader)
        self._names = [part.name for part in fields]
        self.columns = pa.schema([pa.field(field_column(part.name), part.type) for part in fields])

    def decode(self, payloads: Sequence[bytes]) -> Decoded:
        records, bad = self.records(payloads)
        kept = list(records)
        batch, misfits = self.batch(list(records.values()))
        return Decoded(batch, {**bad, **{kept[at]: reason for at, reason in misfits.items()}})

    def records(
        self, payloads: Sequence[bytes]
    ) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
        """The records and the reasons for bad ones, by index."""
        records: dict[int, dict[str, Any]] = {}
        bad: dict[int, str] = {}
        for row, payload in enumerate(payloads):
            try:
                records[row] = self.record(payload)
            except NotARecord as refused:
                bad[row] = str(refused)
        return records, bad

    def record(self, value: bytes, start: int = 0) -> dict[str, Any]:
        """Decode the record from `start` to the end of a value. Raises NotARecord."""
        body = io.BytesIO(value)
        body.seek(start)
        try:
            record = fastavro.schemaless_reader(body, self.writer, self._reader)
        except Exception as error:
            # fastavro raises arbitrary exceptions for malformed bytes.
            text = f"{type(error).__name__}: {error}".rstrip(": ")
            raise NotARecord(f"not such an Avro record: {text}") from error
        if left := len(value) - body.tell():
            raise NotARecord(f"not such an Avro record: {left} bytes are left")
        if not isinstance(record, dict):
            raise NotARecord("not such an Avro record")
        return record

    def batch(self, records: Sequence[dict[str, Any]]) -> tuple[pa.RecordBatch, dict[int, str]]:
        """The columns of records that fit, and the reasons for those that do not."""
        arrays: list[pa.Array] = []
        wrong: dict[int, str] = {}
        for name, part in zip(self._names, self.columns, strict=True):
            column = [record.get(name) for record in records]
            array, misfits = _array(column, part.type)
            for at in misfits:
                reason = (
                    f"field {part.name}: expected {type_name(part.type)}, found {column[at]!r:.60}"
                )
                wrong.setdefault(at, reason)
            arrays.append(array)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.columns)
        return without_rows(batch, wrong), wrong


def _parsed(text: str, references: Sequence[str]) -> Any:
    checked = [json.dumps(_with_checked_times(_loaded(one))) for one in (text, *references)]
    return parsed(checked[0], checked[1:])


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise FormatError(f"not an Avro schema: {type(error).__name__}: {error}") from error


def _with_checked_times(schema: Any) -> Any:
    """The schema with times of day read by `_time`: fastavro drops the sign of negative times."""
    if isinstance(schema, list):
        return [_with_checked_times(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    checked = {name: _with_checked_times(part) for name, part in schema.items()}
    if schema.get("logicalType") in _CHECKED:
        checked["logicalType"] = _CHECKED[schema["logicalType"]]
    return checked


def _time(micros: int) -> dt.time:
    if not 0 <= micros < _DAY_US:
        raise ValueError(f"{micros} microseconds after midnight are no time of a day")
    return (_MIDNIGHT + dt.timedelta(microseconds=micros)).time()


fastavro.read.LOGICAL_READERS["int-sawlog-time-millis"] = lambda data, *_: _time(data * 1_000)
fastavro.read.LOGICAL_READERS["long-sawlog-time-micros"] = lambda data, *_: _time(data)


def _array(column: Sequence[Any], type_: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Convert values to a type; returns the array and the positions that do not fit, as nulls."""
    for convert in (False, True):  # most columns need no conversion, which takes long
        column = _converted(column, type_) if convert else column
        try:
            return pa.array(column, type_), []
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            pass
    misfits: list[int] = []
    values: list[Any] = []
    for at, value in enumerate(column):
        try:
            pa.array([value], type_)
            values.append(value)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            values.append(None)
            misfits.append(at)
    return pa.array(values, type_), misfits


def _converted(column: Sequence[Any], type_: pa.DataType) -> Sequence[Any]:
    """Convert values that pyarrow rejects: times of day and UUIDs to text, naive times to UTC."""
    if pa.types.is_string(type_):
        odd = (dt.time, uuid.UUID)
        return [str(value) if isinstance(value, odd) else value for value in column]
    if pa.types.is_list(type_):
        inner = type_.value_type
        return [None if value is None else _converted(value, inner) for value in column]
    if pa.types.is_map(type_):
        inner = type_.item_type
        return [
            None
            if value is None
            else list(zip(value, _converted(list(value.values()), inner), strict=True))
            for value in column
        ]
    if pa.types.is_struct(type_):
        return [
            None
            if value is None
            else {part.name: _converted([value.get(part.name)], part.type)[0] for part in type_}
            for value in column
        ]
    return column
