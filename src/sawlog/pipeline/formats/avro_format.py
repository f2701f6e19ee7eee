"""Avro records to columns, by fastavro, with a schema from a file.

Options: `schema`, the text of the .avsc file, and `encoding`: `plain` (the record's bytes alone),
`single-object` (Avro's header, whose fingerprint must be that of the schema), `confluent` (a zero
byte and the four-byte id of a registry schema, which must be one of `schema_id`), or `auto`, the
default: single-object if the header is present, else plain.
"""

import datetime as dt
import io
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import fingerprint, to_parsing_canonical_form

from sawlog.pipeline.formats.avro_schemas import from_avro, parsed
from sawlog.pipeline.formats.parsed import BadRow, Format, FormatError, Parsed, check_options
from sawlog.pipeline.formats.schema_inference import merge
from sawlog.pipeline.formats.spark_types import field_column, plain_schema, type_name

_MARK = b"\xc3\x01"
_HEADER = 10
_REGISTRY_HEADER = 5
_CHECKED = {"time-millis": "sawlog-time-millis", "time-micros": "sawlog-time-micros"}
_MIDNIGHT = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_US = 86_400_000_000
_SCHEMA_ID = re.compile(r"[0-9]{1,10}")
_LARGEST_ID = 2**31 - 1
_ENCODINGS = ("auto", "plain", "single-object", "confluent")


class _Bad(Exception):
    """A value that is not a record; the message is the reason."""


class AvroParser:
    """Reads values of one schema.

    Avro data does not describe itself: a record of another schema may decode without error to wrong
    values. So a header that names a schema must name this one.
    """

    def __init__(self, format_: Format, known: pa.Schema | None, *, infer: bool) -> None:
        check_options(format_, {"schema": None, "encoding": _ENCODINGS, "schema_id": None})
        if "schema" not in format_.options:
            raise FormatError("format avro needs a schema: the text of an .avsc file")
        text = format_.options["schema"]
        fields = from_avro(text)
        self._schema = parsed(json.dumps(_with_checked_times(json.loads(text))))
        self._field_of = {field_column(part.name): part.name for part in fields}
        own = pa.schema([pa.field(field_column(part.name), part.type) for part in fields])
        merged = merge(known, own)
        if known is not None and merged.clashes:
            raise FormatError(
                f"the Avro schema does not fit the table's columns {', '.join(merged.clashes)}"
            )
        self._known = merged.schema if infer or not known else plain_schema(known)
        self._encoding = format_.options.get("encoding", "auto")
        self._schema_ids = _schema_ids(format_)
        mark = fingerprint(to_parsing_canonical_form(self._schema), "CRC-64-AVRO")
        self._header = _MARK + bytes.fromhex(mark)

    def __call__(self, values: pa.Array) -> Iterator[Parsed]:
        records: list[dict[str, Any]] = []
        kept: list[int] = []
        bad: dict[int, str] = {}
        for row, value in enumerate(values.to_pylist()):
            try:
                records.append(self._record(value))
                kept.append(row)
            except _Bad as refused:
                bad[row] = str(refused)
        batch, wrong = self._batch(records)
        for at, reason in wrong.items():
            bad[kept[at]] = reason
        if wrong:
            kept = [row for at, row in enumerate(kept) if at not in wrong]
        found = [BadRow(row, bad[row]) for row in sorted(bad)]
        yield Parsed(batch, pa.array(kept, pa.int64()) if found else None, found)

    def _record(self, value: bytes | None) -> dict[str, Any]:
        if value is None:
            raise _Bad("no value")
        start = self._start(value)
        body = io.BytesIO(value)
        body.seek(start)
        try:
            record = fastavro.schemaless_reader(body, self._schema, None)
        except Exception as error:
            # fastavro raises arbitrary exceptions for malformed bytes.
            text = f"{type(error).__name__}: {error}".rstrip(": ")
            raise _Bad(f"not such an Avro record: {text}{_hint(value, start)}") from error
        if left := len(value) - body.tell():
            raise _Bad(f"not such an Avro record: {left} bytes are left{_hint(value, start)}")
        if not isinstance(record, dict):
            raise _Bad("not such an Avro record")
        return record

    def _start(self, value: bytes) -> int:
        if self._encoding == "confluent":
            if len(value) < _REGISTRY_HEADER or value[0] != 0:
                raise _Bad("no Confluent header: expected a zero byte and four of a schema id")
            found = int.from_bytes(value[1:_REGISTRY_HEADER], "big")
            if found not in self._schema_ids:
                accepted = ", ".join(map(str, self._schema_ids))
                raise _Bad(
                    f"written with another Avro schema: schema id {found}, accepted are {accepted}"
                )
            return _REGISTRY_HEADER
        if self._encoding == "plain":
            return 0
        if value.startswith(self._header):
            return _HEADER
        if value.startswith(_MARK) and len(value) >= _HEADER:
            plain = "; if this is a plain record, set encoding: plain"
            raise _Bad(
                f"written with another Avro schema: fingerprint {value[2:10].hex()},"
                f" expected {self._header[2:].hex()}{plain if self._encoding == 'auto' else ''}"
            )
        if self._encoding == "single-object":
            raise _Bad("no single-object header: expected the bytes c3 01")
        return 0

    def _batch(self, records: list[dict[str, Any]]) -> tuple[pa.RecordBatch, dict[int, str]]:
        """The columns of records that fit, and the reasons for those that do not."""
        arrays: list[pa.Array] = []
        wrong: dict[int, str] = {}
        for part in self._known:
            field = self._field_of.get(part.name, "")
            column = [record.get(field) for record in records]
            array, misfits = _array(column, part.type)
            for at in misfits:
                reason = (
                    f"field {part.name}: expected {type_name(part.type)}, found {column[at]!r:.60}"
                )
                wrong.setdefault(at, reason)
            arrays.append(array)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._known)
        if wrong:
            fits = [at not in wrong for at in range(len(records))]
            batch = batch.filter(pa.array(fits, pa.bool_()))
        return batch, wrong


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


def _schema_ids(format_: Format) -> tuple[int, ...]:
    """The registry ids of the schema, from `7` or `7,9`; empty for other encodings."""
    written = format_.options.get("schema_id")
    if format_.options.get("encoding") != "confluent":
        if written is not None:
            raise FormatError(
                "option schema_id of format avro is for encoding: confluent; other encodings have"
                " no schema id"
            )
        return ()
    if written is None:
        raise FormatError(
            "encoding: confluent needs schema_id, the ids that the schema has in the registry:"
            " write schema_id: 7 or schema_id: [7, 9]; values with another id are dead letters"
        )
    texts = [text.strip() for text in written.split(",")]
    if not all(_SCHEMA_ID.fullmatch(text) and int(text) <= _LARGEST_ID for text in texts):
        raise FormatError(
            f"option schema_id of format avro is {written!r}; expected an id, or a list of ids,"
            f" from 0 to {_LARGEST_ID}"
        )
    return tuple(sorted({int(text) for text in texts}))


def _hint(value: bytes, start: int) -> str:
    if start == 0 and len(value) > _REGISTRY_HEADER and value[0] == 0:
        number = int.from_bytes(value[1:_REGISTRY_HEADER], "big")
        return (
            f"; it begins as Confluent's wire format does (magic byte 0, schema id {number}):"
            f" if it is that, set encoding: confluent and schema_id: {number}"
        )
    return ""


def _array(column: Sequence[Any], type_: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Convert values to a type; returns the array and the positions that do not fit, as nulls."""
    column = _converted(column, type_)
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
