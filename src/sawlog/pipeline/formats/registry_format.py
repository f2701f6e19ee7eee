"""Avro and Protobuf values whose schemas are in a registry, each decoded with its writer's schema.

The columns are those of all schemas that values had so far: a new version of a schema adds its
fields to the table. Options of avro: `schema`, the text of an .avsc file to which all records are
resolved instead. In an envelope, values are change events, and the columns are those of their rows.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sawlog.pipeline.formats.column_fit import fit_columns
from sawlog.pipeline.formats.decoded import Decoder, kept_rows, parsed_rows, without_rows
from sawlog.pipeline.formats.parsed import ColumnRules, Format, FormatError, Parsed, check_options
from sawlog.pipeline.formats.registry_framing import (
    Frames,
    message_indexes,
    read_frames,
    schema_of_kind,
    schema_words,
    split_input,
)
from sawlog.pipeline.formats.schema_inference import merge
from sawlog.pipeline.formats.spark_types import field_column
from sawlog.pipeline.registry.registry_client import (
    RegisteredSchema,
    SchemaId,
    registry_client,
)

_ENCODINGS = ("confluent",)
WIRE_FORMATS = {"avro": "", "protobuf": "serialized"}
_KEPT_DECODERS = 256

Indexes = tuple[int, ...]


class _Group(NamedTuple):
    """Values of one schema, and in Protobuf of one message of it."""

    rows: list[int]
    payloads: list[bytes]


class _Writer(NamedTuple):
    decoder: Decoder
    columns: pa.Schema  # of the decoder, with their names in the table


DecoderOf = Callable[[str, RegisteredSchema, Indexes, str | None], Decoder]
"""Makes a decoder from the kind of a schema, the schema, the place of a Protobuf message in it, and
an Avro schema of the reader. Raises FormatError."""


class RegistryParser:
    """Reads values in Confluent's framing; a value of an unknown schema is a bad row."""

    def __init__(
        self, format_: Format, columns: ColumnRules, decoder_of: DecoderOf | None = None
    ) -> None:
        assert format_.registry is not None, format_
        check_options(format_, {"schema": None, "encoding": _ENCODINGS})
        self._kind = format_.kind
        self._client = registry_client(format_.registry)
        self._reader = format_.options.get("schema")
        self._decoder_of = decoder_of or (row_decoder if format_.envelope else schema_decoder)
        self._rules = columns
        self._columns = columns.known
        self._writers: dict[tuple[SchemaId, Indexes], _Writer | str] = {}

    def __call__(self, values: pa.Array) -> Iterator[Parsed]:
        values, headers = split_input(values)
        frames = read_frames(values, headers)
        bad = dict(frames.bad)
        groups = self._groups(values, headers, frames, bad)
        writers = {key: self._writer(*key) for key in groups}
        rows: list[npt.NDArray[np.int64]] = []
        batches: list[pa.RecordBatch] = []
        for key, group in groups.items():
            writer = writers[key]
            if isinstance(writer, str):
                bad |= dict.fromkeys(group.rows, writer)
                continue
            places = np.array(group.rows, np.int64)
            decoded = writer.decoder.decode(group.payloads)
            bad |= {group.rows[at]: f"{reason} ({schema_words(key[0])})"
                    for at, reason in decoded.bad.items()}  # fmt: skip
            places = places[kept_rows(len(places), decoded.bad)]
            sent = decoded.rows.rename_columns(writer.columns.names)
            batch, misfits = fit_columns(sent, self._columns, strict=self._rules.infer)
            bad |= {int(places[at]): reason for at, reason in misfits.items()}
            batches.append(without_rows(batch, misfits))
            rows.append(places[kept_rows(len(places), misfits)])
        yield parsed_rows(_in_order(batches, rows, self._columns), bad, len(values))

    def _groups(
        self, values: pa.Array, headers: pa.Array | None, frames: Frames, bad: dict[int, str]
    ) -> dict[tuple[SchemaId, Indexes], _Group]:
        """The payloads by schema; `bad` gets those without a place of their message."""
        groups: dict[tuple[SchemaId, Indexes], _Group] = {}
        sent: Sequence[bytes] = values.to_pylist()
        framed = sent if headers is None else headers.to_pylist()
        starts, in_header = frames.starts.tolist(), frames.in_header.tolist()
        indexes: Indexes = ()
        for row, code in enumerate(frames.codes.tolist()):
            if code < 0:
                continue
            start = starts[row]
            if self._kind == "protobuf":
                found = message_indexes((framed if in_header[row] else sent)[row], start)
                if found is None:
                    bad[row] = "no place of a Protobuf message follows the schema id"
                    continue
                indexes, start = found
            key = (frames.ids[code], indexes)
            group = groups.get(key)
            if group is None:
                group = groups[key] = _Group([], [])
            group.rows.append(row)
            group.payloads.append(sent[row] if in_header[row] else sent[row][start:])
        return groups

    def _writer(self, schema_id: SchemaId, indexes: Indexes) -> _Writer | str:
        """The decoder of a schema, or why there is none; a new one may add columns."""
        writer = self._writers.get((schema_id, indexes))
        if writer is None:
            writer = self._new_writer(schema_id, indexes)
            self._writers[schema_id, indexes] = writer
            if self._rules.infer and not self._rules.are_final:
                found = [one.columns for one in self._writers.values() if isinstance(one, _Writer)]
                self._columns = merge(self._rules.known, *found).schema
        return writer

    def _new_writer(self, schema_id: SchemaId, indexes: Indexes) -> _Writer | str:
        wire_format = WIRE_FORMATS[self._kind]
        schema = schema_of_kind(self._client, schema_id, self._kind, wire_format)
        if isinstance(schema, str):
            return schema
        try:
            decoder = self._decoder_of(self._kind, schema, indexes, self._reader)
            return _Writer(decoder, self._named(decoder.columns))
        except FormatError as error:
            return f"{schema_words(schema_id)}: {error}"
        except Exception as error:
            # Producers register schemas: a malformed one must not stop the table.
            return f"{schema_words(schema_id)}: {type(error).__name__}: {error}"

    def _named(self, columns: pa.Schema) -> pa.Schema:
        """Columns with other names than generated partition columns."""
        generated = self._rules.generated
        names = [
            field_column(part.name, generated) if part.name.lower() in generated
            else part.name
            for part in columns
        ]  # fmt: skip
        if len({name.lower() for name in names}) < len(names):
            raise FormatError("two fields belong to one column; rename a partition column")
        return pa.schema([part.with_name(name) for part, name in zip(columns, names, strict=True)])


@lru_cache(maxsize=_KEPT_DECODERS)
def schema_decoder(
    kind: str, schema: RegisteredSchema, indexes: Indexes, reader: str | None
) -> Decoder:
    """The decoder of a schema, kept by this process. Raises FormatError."""
    if kind == "avro":
        from sawlog.pipeline.formats.avro_decoder import AvroDecoder

        return AvroDecoder(schema.text, [one.text for one in schema.references], reader)
    from sawlog.pipeline.formats.protobuf_decoder import ProtobufDecoder, message_of_schema

    return ProtobufDecoder(message_of_schema(schema, indexes))


@lru_cache(maxsize=_KEPT_DECODERS)
def row_decoder(
    kind: str, schema: RegisteredSchema, indexes: Indexes, reader: str | None
) -> Decoder:
    """The decoder of the rows of change events, kept by this process. Raises FormatError."""
    assert reader is None, "rows have the schema of their writer"
    if kind == "avro":
        from sawlog.pipeline.formats.avro_envelope import AvroRows

        return AvroRows(schema.text, [one.text for one in schema.references])
    from sawlog.pipeline.formats.protobuf_decoder import message_of_schema
    from sawlog.pipeline.formats.protobuf_envelope import ProtobufRows

    return ProtobufRows(message_of_schema(schema, indexes))


@lru_cache(maxsize=_KEPT_DECODERS)
def event_decoder(
    kind: str,
    schema: RegisteredSchema,
    indexes: Indexes,
    reader: str | None,
    keys: tuple[str, ...],
) -> Decoder:
    """The decoder of what change events do to rows with these keys. Raises FormatError."""
    assert reader is None, "rows have the schema of their writer"
    if kind == "avro":
        from sawlog.pipeline.formats.avro_envelope import AvroEvents

        return AvroEvents(schema.text, [one.text for one in schema.references], keys)
    from sawlog.pipeline.formats.protobuf_decoder import message_of_schema
    from sawlog.pipeline.formats.protobuf_envelope import ProtobufEvents

    return ProtobufEvents(message_of_schema(schema, indexes), keys)


def _in_order(
    batches: Sequence[pa.RecordBatch],
    rows: Sequence[npt.NDArray[np.int64]],
    columns: pa.Schema,
) -> pa.RecordBatch:
    """The rows of all batches in the order of the values."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=columns)
    if len(batches) == 1:
        return batches[0]
    order = np.argsort(np.concatenate(rows))
    return pa.concat_batches(batches).take(pa.array(order))
