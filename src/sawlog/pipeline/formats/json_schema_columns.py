"""The columns that a JSON Schema describes.

A part that no column type describes (a union of unlike types, a type that holds itself, a schema
without a type) has no column here: its type is inferred from the values. Strings stay strings,
whatever their `format`.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sawlog.pipeline.formats.spark_types import MAX_PARTS, column_name, field_column
from sawlog.pipeline.registry.registry_client import Reference

_SIMPLE = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}


def from_json_schema(
    text: str, references: Sequence[Reference] = (), generated: Collection[str] = ()
) -> pa.Schema:
    """The columns of the object that a JSON Schema describes; those that it does not are left out.

    `generated` are column names, in lower case, that fields cannot have.
    """
    documents = {one.name: _loaded(one.text) for one in references}
    document = _loaded(text)
    type_ = _Types(documents).of(document, document, ())
    if type_ is None or not pa.types.is_struct(type_):
        return pa.schema([])
    columns: dict[str, pa.Field] = {}
    for part in type_:
        name = field_column(part.name, generated)
        columns.setdefault(name.lower(), pa.field(name, part.type))
    return pa.schema(list(columns.values()))


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {}


class _Types:
    """Converts schemas; `documents` are those that others refer to by name.

    `inside` are the ids of the schemas that contain a schema: one that contains itself has no type.
    """

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self._left = MAX_PARTS

    def of(self, schema: Any, document: Any, inside: tuple[int, ...]) -> pa.DataType | None:
        """The type of a schema in a document; None if there is none."""
        self._left -= 1
        if not isinstance(schema, dict) or id(schema) in inside or self._left < 0:
            return None
        inside = (*inside, id(schema))
        if isinstance(reference := schema.get("$ref"), str):
            return self.of(*self._target(reference, document), inside)
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return self._union(schema[word], document, inside)
        kinds = schema.get("type")
        kinds = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
        if len(kinds) != 1:
            return None
        kind = kinds[0]
        if kind == "array":
            items = self.of(schema.get("items"), document, inside)
            return None if items is None else pa.list_(items)
        if kind == "object" or (kind is None and ("properties" in schema or "allOf" in schema)):
            return self._object(schema, document, inside)
        return _SIMPLE.get(kind) if isinstance(kind, str) else None

    def _object(self, schema: Any, document: Any, inside: tuple[int, ...]) -> pa.DataType | None:
        fields: dict[str, pa.Field] = {}
        for name, part, home in self._properties(schema, document, ()):
            type_ = self.of(part, home, inside)
            column = column_name(name)
            if type_ is not None and column.lower() not in fields:
                fields[column.lower()] = pa.field(column, type_)
        if fields:
            return pa.struct(list(fields.values()))
        others = self.of(schema.get("additionalProperties"), document, inside)
        if others is None or "properties" in schema:
            return None
        return pa.map_(pa.string(), others)

    def _properties(
        self, schema: Any, document: Any, inside: tuple[int, ...]
    ) -> Iterator[tuple[str, Any, Any]]:
        """The names and schemas of the properties, those of `allOf` too, with their document."""
        self._left -= 1
        if not isinstance(schema, dict) or id(schema) in inside or self._left < 0:
            return
        inside = (*inside, id(schema))
        if isinstance(reference := schema.get("$ref"), str):
            yield from self._properties(*self._target(reference, document), inside)
            return
        if isinstance(properties := schema.get("properties"), dict):
            yield from ((name, part, document) for name, part in properties.items())
        for part in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
            yield from self._properties(part, document, inside)

    def _union(self, schemas: Any, document: Any, inside: tuple[int, ...]) -> pa.DataType | None:
        """The type of all alternatives but null, if they have one."""
        listed = schemas if isinstance(schemas, list) else []
        parts = [one for one in listed if one != {"type": "null"}]
        types = [self.of(one, document, inside) for one in parts]
        return types[0] if types and all(one == types[0] for one in types) else None

    def _target(self, reference: str, document: Any) -> tuple[Any, Any]:
        """The schema that a reference names, and its document."""
        name, _, pointer = reference.partition("#")
        if name:
            document = self._documents.get(name)
        found = document
        for part in pointer.split("/")[1:]:
            word = part.replace("~1", "/").replace("~0", "~")
            found = found.get(word) if isinstance(found, dict) else None
        return found, document
