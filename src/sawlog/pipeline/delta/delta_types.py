"""Conversion between Arrow types and Delta types, and the JSON of a schema in the log.

The JSON is the same as Spark's. All columns are nullable. Only types of Delta's first protocol are
written, so that every Delta reader can read the tables.
"""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sawlog.pipeline.delta.errors import InvalidColumn
from sawlog.pipeline.formats.spark_types import type_name

TIMESTAMP = pa.timestamp("us", tz="UTC")

_NAMES: dict[pa.DataType, str] = {
    pa.string(): "string",
    pa.int64(): "long",
    pa.int32(): "integer",
    pa.int16(): "short",
    pa.int8(): "byte",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.date32(): "date",
    TIMESTAMP: "timestamp",
}
_TYPES: dict[str, pa.DataType] = {
    **{name: kind for kind, name in _NAMES.items()},
    "timestamp_ntz": pa.timestamp("us"),
}
_STORED_TYPES: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}
_MAX_DIGITS = 38


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Convert a schema to the types that are stored, such as timestamps in microseconds UTC.

    Raises InvalidColumn for a column without such a type.
    """
    names: dict[str, str] = {}
    fields = []
    for field in schema:
        if (other := names.get(field.name.lower())) is not None:
            raise InvalidColumn(
                f"columns {other!r} and {field.name!r} differ only in case, or not at all; Delta"
                " does not tell them apart: rename one"
            )
        names[field.name.lower()] = field.name
        fields.append(pa.field(field.name, stored_type(field.type, field.name)))
    return pa.schema(fields)


def stored_type(kind: pa.DataType, where: str) -> pa.DataType:
    """The type in which a column is stored; `where` names the column in an error."""
    kind = _STORED_TYPES.get(kind, kind)
    if kind in _NAMES:
        return kind
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    if pa.types.is_decimal(kind) and kind.precision <= _MAX_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return stored_type(kind.value_type, where)
    return map_nested(kind, lambda inner, name: stored_type(inner, f"{where}.{name}"), where)


def map_nested(
    kind: pa.DataType, change: Callable[[pa.DataType, str], pa.DataType], where: str
) -> pa.DataType:
    """Apply `change` to the parts of a nested type. Raises InvalidColumn for other types."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, change(part.type, part.name)) for part in kind])
    if is_list(kind):
        return pa.list_(pa.field("element", change(kind.value_type, "element")))
    if pa.types.is_map(kind):
        return pa.map_(change(kind.key_type, "key"), change(kind.item_type, "value"))
    raise InvalidColumn(
        f"column {where!r} is of type {type_name(kind)}, which Delta does not have: give it another"
        " type"
    )


def is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def to_json(schema: pa.Schema) -> str:
    """Encode a stored schema as JSON for the log and for Spark."""
    return json.dumps(_struct_out(list(schema)), separators=(",", ":"))


def from_json(text: str) -> pa.Schema:
    """Decode a schema. Raises InvalidColumn for an unknown type."""
    return pa.schema(_fields_in(json.loads(text), ""))


def _struct_out(fields: list[pa.Field]) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {"name": field.name, "type": _type_out(field.type), "nullable": True, "metadata": {}}
            for field in fields
        ],
    }


def _type_out(kind: pa.DataType) -> Any:
    if (name := _NAMES.get(kind)) is not None:
        return name
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return _struct_out(list(kind))
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _type_out(kind.value_type), "containsNull": True}
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _type_out(kind.key_type),
            "valueType": _type_out(kind.item_type),
            "valueContainsNull": True,
        }
    raise InvalidColumn(
        f"{type_name(kind)} is not stored as it is: pass the schema through `stored_schema` first"
    )


def _fields_in(struct: dict[str, Any], above: str) -> list[pa.Field]:
    return [
        pa.field(field["name"], _type_in(field["type"], f"{above}{field['name']}"))
        for field in struct["fields"]
    ]


def _type_in(encoded: Any, where: str) -> pa.DataType:
    if isinstance(encoded, dict):
        match encoded["type"]:
            case "struct":
                return pa.struct(_fields_in(encoded, f"{where}."))
            case "array":
                inner = _type_in(encoded["elementType"], f"{where}.element")
                return pa.list_(pa.field("element", inner))
            case "map":
                of_key = _type_in(encoded["keyType"], f"{where}.key")
                return pa.map_(of_key, _type_in(encoded["valueType"], f"{where}.value"))
    elif (kind := _TYPES.get(encoded)) is not None:
        return kind
    elif isinstance(encoded, str) and encoded.startswith("decimal("):
        precision, _, scale = encoded[len("decimal(") : -1].partition(",")
        return pa.decimal128(int(precision), int(scale or 0))
    name = encoded["type"] if isinstance(encoded, dict) else encoded
    raise InvalidColumn(f"column {where!r} is of type {name}, which no table here can have")
