"""Converts an Avro schema to the columns of a table, or says why it cannot be one.

Rejected are types that no table has (recursive types, unions of different types) and types that a
few bytes can inflate to any size (arrays of items without bytes).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from sawlog.pipeline.formats.parsed import FormatError
from sawlog.pipeline.formats.spark_types import (
    MAX_DIGITS,
    MAX_PARTS,
    TIMESTAMP,
    column_name,
    field_column,
)

_SIMPLE = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): TIMESTAMP,
    ("long", "local-timestamp-micros"): TIMESTAMP,
    ("int", "time-millis"): pa.string(),
    ("long", "time-micros"): pa.string(),
    ("string", "uuid"): pa.string(),
}


def parsed(text: str, references: Sequence[str] = ()) -> Any:
    """The schema in fastavro's form. Raises FormatError if it is not the schema of a record.

    `references` are schemas whose types it uses, each behind those that it uses itself.
    """
    named: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(json.loads(reference), named_schemas=named)
        schema = fastavro.parse_schema(json.loads(text), named_schemas=named)
    except (ValueError, TypeError, KeyError, SchemaParseException, UnknownType) as error:
        raise FormatError(f"not an Avro schema: {type(error).__name__}: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise FormatError("the Avro schema must be that of a record: its fields become columns")
    return schema


def from_avro(text: str, references: Sequence[str] = ()) -> pa.Schema:
    """The columns of the record that an .avsc text describes."""
    schema = parsed(text, references)
    struct = _Types(schema.get("__named_schemas", {})).of(schema, "", ())
    if not struct.num_fields:
        raise FormatError("the Avro schema is that of a record without fields")
    return pa.schema(list(struct))


class _Types:
    """Converts types; named types may be used again by name."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named: dict[str, Any] = dict(named)
        self._left = MAX_PARTS

    def of(self, schema: Any, path: str, inside: tuple[str, ...]) -> pa.DataType:
        self._left -= 1
        if self._left < 0:
            raise FormatError(f"the Avro schema has more than {MAX_PARTS} parts")
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        if isinstance(schema, str):
            schema = {"type": schema}
        if isinstance(schema, list):
            return self._union(schema, path, inside)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.of(kind, path, inside)
        if name := schema.get("name"):
            if name in inside:
                raise FormatError(f"Avro field {path}: {name} holds itself; a table cannot")
            self._named[name] = schema
        if kind == "record":
            return self._record(schema, path, inside)
        if kind == "array":
            items = self.of(schema["items"], f"{path}[]", inside)
            self._check_bytes(schema["items"], path)
            return pa.list_(items)
        if kind == "map":
            return pa.map_(pa.string(), self.of(schema["values"], f"{path}{{}}", inside))
        return self._simple(schema, kind, path)

    def _record(self, schema: Any, path: str, inside: tuple[str, ...]) -> pa.DataType:
        within = (*inside, schema["name"])
        prefix = f"{path}." if path else ""
        by_column: dict[str, str] = {}
        for name in (str(part["name"]) for part in schema["fields"]):
            column = column_name(name) if path else field_column(name)
            if column.lower() in by_column:
                raise FormatError(
                    f"Avro fields {prefix}{by_column[column.lower()]} and {prefix}{name} both"
                    f" belong to column {prefix}{column}; rename one"
                )
            by_column[column.lower()] = name
        return pa.struct(
            [
                pa.field(part["name"], self.of(part["type"], f"{prefix}{part['name']}", within))
                for part in schema["fields"]
            ]
        )

    def _simple(self, schema: Any, kind: str, path: str) -> pa.DataType:
        logical = schema.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            precision, scale = int(schema.get("precision", 0)), int(schema.get("scale", 0))
            if not 1 <= precision <= MAX_DIGITS or not 0 <= scale <= precision:
                raise FormatError(
                    f"Avro field {path}: decimal({precision},{scale}); a table has 1 to"
                    f" {MAX_DIGITS} digits (precision)"
                )
            return pa.decimal128(precision, scale)
        if (kind, logical) in _LOGICAL:
            return _LOGICAL[kind, logical]
        if kind not in _SIMPLE:
            raise FormatError(f"Avro field {path}: a table has no type for {kind}")
        return _SIMPLE[kind]

    def _union(self, schemas: list[Any], path: str, inside: tuple[str, ...]) -> pa.DataType:
        types: list[pa.DataType] = []
        for one in schemas:
            if one != "null" and one != {"type": "null"}:
                type_ = self.of(one, path, inside)
                if type_ not in types:
                    types.append(type_)
        if len(types) == 1:
            return types[0]
        if types and all(type_ in (pa.int32(), pa.int64()) for type_ in types):
            return pa.int64()
        numbers = (pa.int32(), pa.float32(), pa.float64())
        if types and all(type_ in numbers for type_ in types):
            return pa.float64()
        raise FormatError(
            f"Avro field {path}: a union of {len(types)} unlike types; a column has one"
        )

    def _check_bytes(self, items: Any, path: str) -> None:
        if not self._takes_bytes(items):
            raise FormatError(
                f"Avro field {path}: an array of something that takes no bytes, so that a short"
                " value could claim any length"
            )

    def _takes_bytes(self, schema: Any) -> bool:
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        if isinstance(schema, str):
            return schema != "null"
        if isinstance(schema, list):
            return True
        if isinstance(schema["type"], dict | list):
            return self._takes_bytes(schema["type"])
        if schema["type"] == "record":
            return any(self._takes_bytes(part["type"]) for part in schema["fields"])
        if schema["type"] == "fixed":
            return bool(schema["size"])
        return bool(schema["type"] != "null")
