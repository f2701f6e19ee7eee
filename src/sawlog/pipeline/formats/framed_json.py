"""JSON values in Confluent's framing, with or without the JSON Schemas of a registry.

With a registry the schemas give the types of the columns, and fields that no schema describes are
inferred. Without one the framing is removed, and its id means nothing.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sawlog.pipeline.formats.json_format import JsonParser
from sawlog.pipeline.formats.json_schema_columns import from_json_schema
from sawlog.pipeline.formats.parsed import BadRow, ColumnRules, Format, Parsed, check_options
from sawlog.pipeline.formats.registry_framing import (
    Frames,
    read_frames,
    schema_of_kind,
    split_input,
)
from sawlog.pipeline.formats.schema_inference import merge
from sawlog.pipeline.formats.value_buffers import values_of
from sawlog.pipeline.registry.registry_client import SchemaId, registry_client

_ENCODINGS = ("plain", "confluent")


class FramedJsonParser:
    """Removes the framing of values and parses the rest as JSON."""

    def __init__(self, format_: Format, columns: ColumnRules) -> None:
        check_options(format_, {"encoding": _ENCODINGS})
        url = format_.registry
        self._client = None if url is None else registry_client(url)
        self._known = columns.known
        self._columns = columns
        self._schemas: dict[SchemaId, pa.Schema | str] = {}
        self._format = Format("json", {}, None, format_.epoch_millis, format_.hinted_bigints)
        self._parser = JsonParser(self._format, columns)

    def __call__(self, values: pa.Array) -> Iterator[Parsed]:
        values, headers = split_input(values)
        frames = read_frames(values, headers)
        bad = {**frames.bad, **self._unknown(frames)}
        places = values_of(values)
        begins = places.begins + np.where(frames.in_header, 0, frames.starts)
        begins[list(bad)] = -1  # as null
        done = 0
        for part in self._parser.parse(places._replace(begins=begins.astype(np.int32))):
            reasons = [BadRow(row, bad.get(done + row, reason)) for row, reason in part.bad]
            yield part._replace(bad=reasons)
            done += part.values

    def _unknown(self, frames: Frames) -> dict[int, str]:
        """The values whose schema is not known; columns of new schemas are added."""
        if self._client is None:
            return {}
        bad: dict[int, str] = {}
        for code in np.unique(frames.codes[frames.codes >= 0]).tolist():
            found = self._schema(frames.ids[code])
            if isinstance(found, str):
                bad |= dict.fromkeys(np.flatnonzero(frames.codes == code).tolist(), found)
        return bad

    def _schema(self, schema_id: SchemaId) -> pa.Schema | str:
        """The columns of a schema, or why there are none."""
        found = self._schemas.get(schema_id)
        if found is None:
            found = self._schemas[schema_id] = self._fetch(schema_id)
            schemas = [one for one in self._schemas.values() if isinstance(one, pa.Schema)]
            merged = merge(self._known, *schemas).schema
            if merged != self._columns.known and not self._columns.are_final:
                self._columns = self._columns._replace(known=merged)
                self._parser = JsonParser(self._format, self._columns)
        return found

    def _fetch(self, schema_id: SchemaId) -> pa.Schema | str:
        assert self._client is not None
        schema = schema_of_kind(self._client, schema_id, "json")
        if isinstance(schema, str):
            return schema
        return from_json_schema(schema.text, schema.references, self._columns.generated)
