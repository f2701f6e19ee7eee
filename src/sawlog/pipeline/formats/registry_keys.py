"""Keys of records in Confluent's framing, as JSON: the key of a tombstone names a row to delete.

The id of a key's schema is in the header `__key_schema_id` of its record, which is read first, or
before the key. A key may have another kind of schema than the value of its record, and an Avro
schema need not be that of a record: `"long"` is the schema of a key that is a number.
"""

import json

import numpy as np
import pyarrow as pa

from sawlog.pipeline.formats.decoded import Decoder
from sawlog.pipeline.formats.key_json import BadKey, key_json
from sawlog.pipeline.formats.parsed import FormatError
from sawlog.pipeline.formats.registry_format import WIRE_FORMATS, schema_decoder
from sawlog.pipeline.formats.registry_framing import (
    KEY_HEADER,
    first_headers,
    message_indexes,
    read_frames,
    schema_words,
)
from sawlog.pipeline.registry.registry_client import (
    RegisteredSchema,
    RegistryClient,
    SchemaId,
    UnknownSchema,
    registry_client,
)
from sawlog.pipeline.registry.registry_url import RegistryUrl

_SCALAR = "scalar"  # the field of a record around a schema that is none


class FramedKeys:
    """Decodes keys with the schemas of a registry. Without one, all framed keys are JSON."""

    def __init__(self, registry: RegistryUrl | None) -> None:
        self._client = None if registry is None else registry_client(registry)

    def to_json(self, records: pa.RecordBatch) -> tuple[pa.Array, dict[int, str]]:
        """The keys as JSON, and the reasons for bad ones by index, which are null.

        Keys without a schema id stay as they are. Raises RegistryUnavailable or RegistryRefused.
        """
        keys = records.column("key").cast(pa.binary())
        headers = first_headers(records.column("headers"), KEY_HEADER)
        frames = read_frames(keys, headers, KEY_HEADER)
        bad = {row: reason for row, reason in frames.bad.items() if frames.in_header[row]}
        framed = np.flatnonzero(frames.codes >= 0).tolist()
        if not framed and not bad:
            return keys, {}
        found: list[bytes | None] = keys.to_pylist()
        for row in framed:
            schema_id, start = frames.ids[frames.codes[row]], int(frames.starts[row])
            key = found[row] if frames.in_header[row] else None
            frame = found[row] if headers is None or key is None else headers[row].as_py()
            assert frame is not None, "it has an id"
            try:
                found[row] = self._decoded(schema_id, frame[start:], key)
            except BadKey as error:
                bad[row] = str(error)
        for row in bad:
            found[row] = None
        return pa.array(found, pa.binary()), bad

    def _decoded(self, schema_id: SchemaId, rest: bytes, key: bytes | None) -> bytes:
        """A key as JSON; `rest` follows the id. It is the key unless the id is in a header."""
        schema = None if self._client is None else _schema(self._client, schema_id)
        indexes: tuple[int, ...] = ()
        if schema is not None and schema.kind == "PROTOBUF":
            place = message_indexes(rest, 0)
            if place is None:
                raise BadKey("no place of a Protobuf message follows the schema id")
            indexes, rest = place[0], rest[place[1] :]
        key = rest if key is None else key
        if schema is None or schema.kind == "JSON":
            return key
        decoded = _decoder(schema_id, schema, indexes).decode([key])
        if decoded.bad:
            raise BadKey(f"{decoded.bad[0]} ({schema_words(schema_id)})")
        (row,) = decoded.rows.to_pylist()
        value = row[_SCALAR] if list(row) == [_SCALAR] else row
        return key_json(value)


def _schema(client: RegistryClient, schema_id: SchemaId) -> RegisteredSchema:
    try:
        schema = client.schema(schema_id)
        if schema.kind == "PROTOBUF":
            schema = client.schema(schema_id, WIRE_FORMATS["protobuf"])
    except UnknownSchema as error:
        raise BadKey(f"{schema_words(schema_id)}: {error}") from error
    return schema


def _decoder(schema_id: SchemaId, schema: RegisteredSchema, indexes: tuple[int, ...]) -> Decoder:
    try:
        if schema.kind == "AVRO":
            schema = schema._replace(text=_as_record(schema.text))
        return schema_decoder(schema.kind.lower(), schema, indexes, None)
    except FormatError as error:
        raise BadKey(f"{schema_words(schema_id)}: {error}") from error
    except Exception as error:
        # Producers register schemas: a malformed one must not stop the table.
        raise BadKey(f"{schema_words(schema_id)}: {type(error).__name__}: {error}") from error


def _as_record(text: str) -> str:
    """An Avro schema, that of a record with one field if it is none: the bytes are the same."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise FormatError(f"not an Avro schema: {error}") from error
    if isinstance(schema, dict) and schema.get("type") == "record":
        return text
    fields = [{"name": _SCALAR, "type": schema}]
    return json.dumps({"type": "record", "name": "sawlog_key", "fields": fields})
