"""The columns that a JSON Schema describes.

A part that no column type describes (a union of unlike types, a type that holds itself, a schema
without a type) has no column here: its type is inferred from the values. Strings stay strings,
whatever their `format`.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sawlog.pipeline.formats.spark_types import column_name, field_column
from sawlog.pipeline.registry.registry_client import Reference

_SIMPLE = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}
_MAX_LEVELS = 100


def from_json_schema(
    text: str, references: Sequence[Reference] = (), generated: Collection[str] = ()
) -> pa.Schema:
    """The columns of the object that a JSON Schema describes; those that it does not are left out.

    `generated` are column names, in lower case, that fields cannot have.
    """
    documents = {one.name: _loaded(one.text) for one in references}
    type_ = _Types(documents).of(_loaded(text), _loaded(text), 0)
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
    """Converts schemas; `documents` are those that others refer to by name."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents

    def of(self, schema: Any, document: Any, level: int) -> pa.DataType | None:
        """The type of a schema in a document; None if there is none."""
        if not isinstance(schema, dict) or level > _MAX_LEVELS:
            return None
        if isinstance(reference := schema.get("$ref"), str):
            target, inside = self._target(reference, document)
            return self.of(target, inside, level + 1)
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return self._union(schema[word], document, level)
        kinds = schema.get("type")
        kinds = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
        if len(kinds) != 1:
            return None
        kind = kinds[0]
        if kind == "array":
            items = self.of(schema.get("items"), document, level + 1)
            return None if items is None else pa.list_(items)
        if kind == "object" or (kind is None and ("properties" in schema or "allOf" in schema)):
            return self._object(schema, document, level)
        return _SIMPLE.get(kind) if isinstance(kind, str) else None

    def _object(self, schema: Any, document: Any, level: int) -> pa.DataType | None:
        fields: dict[str, pa.Field] = {}
        for name, part in self._properties(schema, document, level):
            type_ = self.of(part, document, level + 1)
            column = name if level == 0 else column_name(name)
            if type_ is not None and column.lower() not in fields:
                fields[column.lower()] = pa.field(column, type_)
        if fields:
            return pa.struct(list(fields.values()))
        others = self.of(schema.get("additionalProperties"), document, level + 1)
        if others is None or "properties" in schema:
            return None
        return pa.map_(pa.string(), others)

    def _properties(self, schema: Any, document: Any, level: int) -> Iterator[tuple[str, Any]]:
        if not isinstance(schema, dict) or level > _MAX_LEVELS:
            return
        if isinstance(reference := schema.get("$ref"), str):
            target, inside = self._target(reference, document)
            if inside is document:
                yield from self._properties(target, inside, level + 1)
            return
        if isinstance(properties := schema.get("properties"), dict):
            yield from properties.items()
        if isinstance(parts := schema.get("allOf"), list):
            for part in parts:
                yield from self._properties(part, document, level + 1)

    def _union(self, schemas: Any, document: Any, level: int) -> pa.DataType | None:
        """The type of all alternatives but null, if they have one."""
        parts = [one for one in schemas if one != {"type": "null"}] if schemas else []
        types = [self.of(one, document, level + 1) for one in parts]
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
