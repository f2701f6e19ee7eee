"""Avro records to columns, by fastavro, with a schema from a file.

Options: `schema`, the text of the .avsc file, and `encoding`: `plain` (the record's bytes alone),
`single-object` (Avro's header, whose fingerprint must be that of the schema), `confluent` (a zero
byte and the four-byte id of a registry schema, which must be one of `schema_id`), or `auto`, the
default: single-object if the header is present, else plain.
"""

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from fastavro.schema import fingerprint, to_parsing_canonical_form

from sawlog.pipeline.formats.avro_decoder import AvroDecoder, NotARecord
from sawlog.pipeline.formats.column_fit import fit_columns
from sawlog.pipeline.formats.decoded import parsed_rows
from sawlog.pipeline.formats.parsed import Format, FormatError, Parsed, check_options
from sawlog.pipeline.formats.schema_inference import merge
from sawlog.pipeline.formats.spark_types import plain_schema

_MARK = b"\xc3\x01"
_HEADER = 10
_REGISTRY_HEADER = 5
_SCHEMA_ID = re.compile(r"[0-9]{1,10}")
_LARGEST_ID = 2**31 - 1
_ENCODINGS = ("auto", "plain", "single-object", "confluent")


class AvroParser:
    """Reads values of one schema.

    Avro data does not describe itself: a record of another schema may decode without error to wrong
    values. So a header that names a schema must name this one.
    """

    def __init__(self, format_: Format, known: pa.Schema | None, *, infer: bool) -> None:
        check_options(format_, {"schema": None, "encoding": _ENCODINGS, "schema_id": None})
        if "schema" not in format_.options:
            raise FormatError("format avro needs a schema: the text of an .avsc file")
        self._decoder = AvroDecoder(format_.options["schema"])
        merged = merge(known, self._decoder.columns)
        if known is not None and merged.clashes:
            raise FormatError(
                f"the Avro schema does not fit the table's columns {', '.join(merged.clashes)}"
            )
        self._known = merged.schema if infer or not known else plain_schema(known)
        self._encoding = format_.options.get("encoding", "auto")
        self._schema_ids = _schema_ids(format_)
        mark = fingerprint(to_parsing_canonical_form(self._decoder.writer), "CRC-64-AVRO")
        self._header = _MARK + bytes.fromhex(mark)

    def __call__(self, values: pa.Array) -> Iterator[Parsed]:
        records: list[dict[str, Any]] = []
        kept: list[int] = []
        bad: dict[int, str] = {}
        for row, value in enumerate(values.to_pylist()):
            try:
                records.append(self._record(value))
                kept.append(row)
            except NotARecord as refused:
                bad[row] = str(refused)
        rows, wrong = self._decoder.batch(records)
        batch, misfits = fit_columns(rows, self._known, strict=False)
        assert not misfits, misfits  # the schema has the types of the columns
        bad |= {kept[at]: reason for at, reason in wrong.items()}
        yield parsed_rows(batch, bad, len(values))

    def _record(self, value: bytes | None) -> dict[str, Any]:
        if value is None:
            raise NotARecord("no value")
        start = self._start(value)
        try:
            return self._decoder.record(value, start)
        except NotARecord as error:
            raise NotARecord(f"{error}{_hint(value, start)}") from error

    def _start(self, value: bytes) -> int:
        if self._encoding == "confluent":
            if len(value) < _REGISTRY_HEADER or value[0] != 0:
                raise NotARecord(
                    "no Confluent header: expected a zero byte and four of a schema id"
                )
            found = int.from_bytes(value[1:_REGISTRY_HEADER], "big")
            if found not in self._schema_ids:
                accepted = ", ".join(map(str, self._schema_ids))
                raise NotARecord(
                    f"written with another Avro schema: schema id {found}, accepted are {accepted}"
                )
            return _REGISTRY_HEADER
        if self._encoding == "plain":
            return 0
        if value.startswith(self._header):
            return _HEADER
        if value.startswith(_MARK) and len(value) >= _HEADER:
            plain = "; if this is a plain record, set encoding: plain"
            raise NotARecord(
                f"written with another Avro schema: fingerprint {value[2:10].hex()},"
                f" expected {self._header[2:].hex()}{plain if self._encoding == 'auto' else ''}"
            )
        if self._encoding == "single-object":
            raise NotARecord("no single-object header: expected the bytes c3 01")
        return 0


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
            " write schema_id: 7 or schema_id: [7, 9]; values with another id are dead letters."
            " Or name the registry: registry: http://HOST:8081"
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
