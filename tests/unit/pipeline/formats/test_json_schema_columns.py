"""The columns of JSON Schemas; what has no column type is left to inference."""

import json
from typing import Any

import pytest

from sawlog.pipeline.formats.json_schema_columns import from_json_schema
from sawlog.pipeline.formats.schema_inference import ddl
from sawlog.pipeline.registry.registry_client import Reference

INTEGER = {"type": "integer"}
NODE = {"type": "object", "properties": {"x": INTEGER, "next": {"$ref": "#/$defs/node"}}}

POINT = {"properties": {"y": INTEGER}}


def columns(schema: Any, *references: Reference, **more: Any) -> str:
    return ddl(from_json_schema(json.dumps(schema), references, **more))


def column(part: Any, **definitions: Any) -> str:
    schema = {"type": "object", "properties": {"f": part}, "$defs": definitions}
    return columns(schema).removeprefix("f ")


@pytest.mark.parametrize(
    ("part", "type_"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date-time"}, "string"),
        (INTEGER, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": ["null", "integer"]}, "bigint"),
        ({"type": ["string", "integer"]}, ""),
        ({"oneOf": [{"type": "null"}, INTEGER]}, "bigint"),
        ({"anyOf": [INTEGER, {"type": "string"}]}, ""),
        ({"type": "array", "items": INTEGER}, "array<bigint>"),
        ({"type": "array"}, ""),
        ({"type": "array", "items": [INTEGER]}, ""),
        ({"type": "object", "properties": {"a,b": INTEGER}}, "struct<a_b:bigint>"),
        ({"type": "object"}, ""),
        ({"type": "object", "additionalProperties": INTEGER}, "map<string,bigint>"),
        ({"type": "object", "additionalProperties": True}, ""),
        ({"properties": {"a": INTEGER}}, "struct<a:bigint>"),
        ({"allOf": [{"properties": {"a": INTEGER}}, {"$ref": "#/$defs/point"}]},
         "struct<a:bigint,y:bigint>"),
        ({"$ref": "#/$defs/node"}, "struct<x:bigint>"),
        ({"$ref": "#/$defs/absent"}, ""),
        ({"$ref": "#"}, ""),
        ({}, ""),
        (True, ""),
        ({"oneOf": 5, "type": "integer"}, ""),
        ({"type": [5]}, ""),
        ({"type": "object", "properties": 5}, ""),
    ],
)  # fmt: skip
def test_a_part_has_the_type_that_holds_its_values_or_none(part: Any, type_: str) -> None:
    assert column(part, node=NODE, point=POINT) == type_


@pytest.mark.parametrize("schema", [True, [], "x", INTEGER, {"type": "array"}])
def test_a_schema_that_is_not_that_of_an_object_has_no_columns(schema: Any) -> None:
    assert columns(schema) == ""


def test_names_are_those_of_the_parser() -> None:
    schema = {"properties": {"offset": INTEGER, "a b": INTEGER, "day": INTEGER, "A_B": INTEGER}}
    expected = "value_offset bigint, a_b bigint, value_day bigint"
    assert columns(schema, generated=["day"]) == expected


def test_references_to_other_documents_are_followed() -> None:
    document = {"$ref": "#/definitions/b", "definitions": {"b": POINT}}
    other = Reference("b.json", json.dumps(document))
    schema = {"properties": {"b": {"$ref": "b.json"}, "c": {"$ref": "b.json#/definitions/b"}}}
    assert columns(schema, other) == "b struct<y:bigint>, c struct<y:bigint>"
    assert columns({"$ref": "b.json"}, other) == "y bigint"


def test_types_that_use_each_other_many_times_end() -> None:
    levels = {
        f"l{n}": {"properties": {k: {"$ref": f"#/$defs/l{n + 1}"} for k in "abcd"}}
        for n in range(30)
    }
    schema = {"properties": {"f": {"$ref": "#/$defs/l0"}}, "$defs": {**levels, "l30": INTEGER}}
    columns(schema)
