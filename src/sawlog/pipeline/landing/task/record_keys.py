"""Key columns of a keyed table from JSON: the key of a record, or a row before its deletion.

A key is an object with the columns (`{"id": 7}`), also as the `payload` that Debezium's converters
write beside a schema. With one key column it may be the value itself: `7`, or text with or without
quotes.
"""

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.formats import parser
from sawlog.pipeline.formats.parsed import BadRow, Format, Parsed, reject_rows

_JSON = Format("json")
_PAYLOAD = "payload"


class RecordKeyParser:
    """Parses keys with the types of `known`; types of other columns are inferred if `infer`."""

    def __init__(self, columns: Sequence[str], known: pa.Schema, *, infer: bool) -> None:
        self._columns = list(columns)
        self._known = pa.schema([field for field in known if field.name in columns])
        self._infer = infer and len(self._known) < len(self._columns)

    def parse(self, rows: pa.Array, keys: pa.Array) -> Parsed:
        """The key columns of rows or, where these are null, of the keys of records.

        Both are binary. A null in a key column is bad.
        """
        texts = pc.coalesce(rows, self._without_schema(keys))
        parsed = self._rows(texts, self._known, infer=self._infer)
        if parsed is None or (parsed.bad and self._infer and self._are_scalars(texts, parsed)):
            # Text without quotes, or several types: all of them are strings.
            missing = [pa.field(name, pa.string()) for name in self._columns
                       if name not in self._known.names]  # fmt: skip
            parsed = self._rows(texts, pa.schema([*self._known, *missing]), infer=False)
            assert parsed is not None
        return reject_null_keys(parsed, parsed.rows, self._columns)

    def texts(self, rows: pa.Array) -> list[pa.Array]:
        """Each key column of rows as text, whatever its type; null where a row lacks it."""
        fields = pa.schema([pa.field(name, pa.string()) for name in self._columns])
        none = pa.scalar(None, pa.string())
        found: list[list[pa.Array]] = [[] for _ in self._columns]
        for part in parser(_JSON, fields, infer=False)(rows):
            for name, arrays in zip(self._columns, found, strict=True):
                arrays.extend(_in_place(part, part.rows.column(name), none))
        return [pa.concat_arrays(arrays) for arrays in found]

    def _without_schema(self, keys: pa.Array) -> pa.Array:
        """Take the payload of objects that have one and no key column."""
        is_object = pc.fill_null(pc.starts_with(keys, "{"), False)
        if _PAYLOAD in self._columns or not pc.any(is_object).as_py():
            return keys
        none = pa.scalar(None, pa.binary())
        objects = pc.if_else(is_object, keys, pa.scalar(b"{}"))
        payloads: list[pa.Array] = []
        names = [_PAYLOAD, *self._columns]
        fields = pa.schema([pa.field(name, pa.string()) for name in names])
        for part in parser(_JSON, fields, infer=False)(objects):
            payload = part.rows.column(_PAYLOAD).cast(pa.binary())
            for name in self._columns:
                payload = pc.if_else(pc.is_valid(part.rows.column(name)), none, payload)
            payloads += _in_place(part, payload, none)
        return pc.coalesce(pa.concat_arrays(payloads), keys)

    def _rows(self, texts: pa.Array, known: pa.Schema, *, infer: bool) -> Parsed | None:
        """The columns that the texts have; None if inferred types differ between parts."""
        parts = list(parser(_JSON, known, infer=infer)(self._objects(texts, known)))
        kinds: dict[str, pa.DataType] = {field.name: field.type for field in known}
        for part in parts:
            for name in self._columns:
                place = part.rows.schema.get_field_index(name)
                if place >= 0:
                    kind = part.rows.schema.field(place).type
                    if kinds.setdefault(name, kind) != kind:
                        return None
        schema = pa.schema([(name, kinds[name]) for name in self._columns if name in kinds])
        batches: list[pa.RecordBatch] = []
        kept: list[int] = []
        bad: list[BadRow] = []
        start = 0
        for part in parts:
            batches.append(_conformed(part.rows, schema))
            indexes = range(part.values) if part.kept is None else part.kept.to_pylist()
            kept += [start + index for index in indexes]
            bad += [BadRow(start + row, reason) for row, reason in part.bad]
            start += part.values
        rows = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
        whole = rows[0] if rows else _conformed(batches[0].slice(0, 0), schema)
        return Parsed(whole, pa.array(kept, pa.int64()), bad)

    def _objects(self, texts: pa.Array, known: pa.Schema) -> pa.Array:
        """The texts as JSON objects; the value of a single key column gets its name."""
        if len(self._columns) > 1:
            return texts
        name = json.dumps(self._columns[0]).encode()
        is_object = pc.starts_with(texts, "{")
        plain = pc.binary_join_element_wise(b"{" + name + b":", texts, b"}", b"")
        if len(known) and pa.types.is_string(known.field(0).type):
            escaped = pc.replace_substring(texts, "\\", "\\\\")
            escaped = pc.replace_substring(escaped, '"', '\\"')
            quoted = pc.binary_join_element_wise(b"{" + name + b':"', escaped, b'"}', b"")
            plain = pc.if_else(pc.starts_with(texts, '"'), plain, quoted)
        return pc.if_else(is_object, texts, plain)

    def _are_scalars(self, texts: pa.Array, parsed: Parsed) -> bool:
        bad = texts.take(pa.array([row.row for row in parsed.bad], pa.int64())).drop_null()
        return len(self._columns) == 1 and not pc.any(pc.starts_with(bad, "{")).as_py()


def all_valid(columns: Sequence[pa.Array]) -> pa.Array:
    """Which rows have no null in one of the columns."""
    found = pc.is_valid(columns[0])
    for column in columns[1:]:
        found = pc.and_(found, pc.is_valid(column))
    return found


def reject_null_keys(parsed: Parsed, keys: pa.RecordBatch, columns: Sequence[str]) -> Parsed:
    """Make rows bad that have a null in a key column; `keys` has the columns of the good rows."""
    is_null = pa.repeat(pa.scalar(False), parsed.rows.num_rows)
    for name in columns:
        place = keys.schema.get_field_index(name)
        missing = pa.repeat(pa.scalar(True), len(is_null)) if place < 0 else pc.is_null(keys[place])
        is_null = pc.or_(is_null, missing)
    return reject_rows(parsed, is_null, f"no value for the key ({', '.join(columns)})")


def _conformed(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if not len(schema):
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows.num_rows, pa.struct([])))
    columns = [
        rows.column(field.name) if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _in_place(part: Parsed, column: pa.Array, none: pa.Scalar) -> list[pa.Array]:
    """The column with nulls where values were bad."""
    if part.kept is None:
        return [column]
    places: list[int | None] = [None] * part.values
    for number, index in enumerate(part.kept.to_pylist()):
        places[index] = number
    return [column.take(pa.array(places, pa.int64())) if len(column) else
            pa.repeat(none, part.values)]  # fmt: skip
