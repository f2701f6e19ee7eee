"""Decodes Debezium's change events in Avro: their rows, or what they do to which key.

The schema of a value is that of the envelope, and a row's schema is that of the record in its
fields `before` and `after`. Each decoder reads the fields that it needs, as Avro's resolution to a
reader's schema does, and skips the others.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sawlog.pipeline.formats.avro_decoder import AvroDecoder
from sawlog.pipeline.formats.avro_schemas import parsed
from sawlog.pipeline.formats.change_events import (
    AFTER,
    BEFORE,
    EVENT,
    NO_ROW,
    OP,
    Keys,
    decoded_events,
)
from sawlog.pipeline.formats.decoded import Decoded
from sawlog.pipeline.formats.parsed import FormatError
from sawlog.pipeline.formats.spark_types import field_column


class AvroRows:
    """Decodes the rows `after`; an event without one is bad. Raises FormatError."""

    def __init__(self, text: str, references: Sequence[str]) -> None:
        envelope = _Envelope(text, references)
        self._events = AvroDecoder(text, references, envelope.reader([AFTER]))
        self._rows = AvroDecoder(envelope.row())
        self.columns = self._rows.columns

    def decode(self, payloads: Sequence[bytes]) -> Decoded:
        events, bad = self._events.records(payloads)
        bad |= {at: NO_ROW for at, event in events.items() if event[AFTER] is None}
        rows = {at: event[AFTER] for at, event in events.items() if at not in bad}
        batch, misfits = self._rows.batch(list(rows.values()))
        places = list(rows)
        return Decoded(batch, bad | {places[at]: reason for at, reason in misfits.items()})


class AvroEvents:
    """Decodes what events do, and the columns `keys` of the rows before and after."""

    def __init__(self, text: str, references: Sequence[str], keys: Collection[str]) -> None:
        envelope = _Envelope(text, references)
        self._events = AvroDecoder(text, references, envelope.reader([OP, BEFORE, AFTER], keys))
        row = envelope.row(keys)
        self._keys = AvroDecoder(row) if json.loads(row)["fields"] else None
        self.columns = EVENT

    def decode(self, payloads: Sequence[bytes]) -> Decoded:
        events, bad = self._events.records(payloads)
        found = list(events.values())
        ops = [event[OP] for event in found]
        return decoded_events(ops, self._keys_of(found, BEFORE), self._keys_of(found, AFTER), bad)

    def _keys_of(self, events: Sequence[Mapping[str, Any]], field: str) -> Keys:
        places = [at for at, event in enumerate(events) if event.get(field) is not None]
        found: dict[int, Mapping[str, Any]] = {place: {} for place in places}
        if self._keys is not None:
            rows, misfits = self._keys.batch([events[at][field] for at in places])
            good = [place for at, place in enumerate(places) if at not in misfits]
            found.update(zip(good, rows.to_pylist(), strict=True))
        return found


class _Envelope:
    """The schema of an envelope, of which parts become schemas of their own."""

    def __init__(self, text: str, references: Sequence[str]) -> None:
        schema = parsed(text, references)
        self._name = schema["name"]
        self._named: dict[str, Any] = schema["__named_schemas"]
        self._fields = {field["name"]: field["type"] for field in schema["fields"]}
        if OP not in self._fields:
            raise FormatError(f"not a change event of Debezium: no field {OP}")
        self._row = self._row_name()

    def _row_name(self) -> str:
        """The name of the record in the field `after`."""
        type_ = self._fields.get(AFTER)
        for one in type_ if isinstance(type_, list) else [type_]:
            name = _name_of(one)
            if self._named.get(name, {}).get("type") == "record":
                return name
        raise FormatError(f"not a change event of Debezium: no record in its field {AFTER}")

    def row(self, keys: Collection[str] | None = None) -> str:
        """The schema of a row, or of its columns `keys`."""
        return json.dumps(self._whole(self._row, self._types(keys), set()))

    def reader(self, names: Sequence[str], keys: Collection[str] | None = None) -> str:
        """The schema of an envelope with these of its fields, and with such rows."""
        types, written = self._types(keys), set[str]()
        fields = [
            {"name": name, "type": self._whole(self._fields[name], types, written)}
            for name in names
            if name in self._fields
        ]
        return json.dumps({"type": "record", "name": self._name, "fields": fields})

    def _types(self, keys: Collection[str] | None) -> Mapping[str, Any]:
        """The named types; of rows with the columns `keys` only, if they are given."""
        if keys is None:
            return self._named
        row = self._named[self._row]
        wanted = {name.lower() for name in keys}
        fields = [one for one in row["fields"] if field_column(one["name"]).lower() in wanted]
        return {**self._named, self._row: {**row, "fields": fields}}

    def _whole(self, schema: Any, types: Mapping[str, Any], written: set[str]) -> Any:
        """The schema with the definition of each type where its name occurs first.

        The definition may have stood in a field that is left out.
        """
        if isinstance(schema, list):
            return [self._whole(one, types, written) for one in schema]
        name = _name_of(schema)
        if name in types:
            if name in written:
                return name
            written.add(name)
            schema = types[name]
        if not isinstance(schema, dict):
            return schema
        found = {word: part for word, part in schema.items() if not word.startswith("__")}
        for word in ("items", "values"):
            if word in found:
                found[word] = self._whole(found[word], types, written)
        if not isinstance(found["type"], str):
            found["type"] = self._whole(found["type"], types, written)
        if "fields" in found:
            found["fields"] = [
                {**field, "type": self._whole(field["type"], types, written)}
                for field in found["fields"]
            ]
        return found


def _name_of(schema: Any) -> str:
    """The name of a type, or empty."""
    return str(schema.get("name", "") if isinstance(schema, dict) else schema or "")
