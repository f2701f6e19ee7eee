"""Protobuf messages to Arrow columns: for each field its type, and how messages become its array.

A field with presence (optional, a message, part of a oneof, proto2) is null if it is not set; other
fields have their default then, as Protobuf defines.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from sawlog.pipeline.formats.parsed import FormatError
from sawlog.pipeline.formats.spark_types import (
    END_S,
    FIRST_S,
    MAX_PARTS,
    TIMESTAMP,
    column_name,
    field_column,
)

_SIMPLE = {
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
}
_WRAPPERS = "google/protobuf/wrappers.proto"
_TIMESTAMP = "google.protobuf.Timestamp"
_AS_JSON = tuple(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))

Messages = Sequence[Any]


class Column(ABC):
    """The values of one field, or of the items of a repeated one, as an array."""

    type: pa.DataType

    @abstractmethod
    def array(self, values: Sequence[Any]) -> pa.Array:
        """The array of the values; None is null. Raises an error if one has no place in it."""


class _Simple(Column):
    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_

    def array(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(values, self.type)


class _Converted(Column):
    """Values that a function converts first."""

    def __init__(self, type_: pa.DataType, convert: Callable[[Any], Any]) -> None:
        self.type = type_
        self._convert = convert

    def array(self, values: Sequence[Any]) -> pa.Array:
        convert = self._convert
        return pa.array([None if one is None else convert(one) for one in values], self.type)


class _Timestamps(Column):
    type = TIMESTAMP

    def array(self, values: Sequence[Any]) -> pa.Array:
        micros = [None if one is None else _micros(one) for one in values]
        return pa.array(micros, pa.int64()).cast(TIMESTAMP)


def _micros(timestamp: Any) -> int:
    """Microseconds; finer digits are cut off."""
    if not (FIRST_S <= timestamp.seconds < END_S and 0 <= timestamp.nanos < 1_000_000_000):
        raise ValueError(f"no timestamp of the years 1 to 9999: {timestamp.seconds} s")
    return int(timestamp.seconds * 1_000_000 + timestamp.nanos // 1_000)


class Struct(Column):
    """Messages of one type; each field is a child array."""

    def __init__(self, descriptor: Descriptor, fields: Sequence["Field"]) -> None:
        self._empty = GetMessageClass(descriptor)()
        self.fields = fields
        self.type = pa.struct([pa.field(field.name, field.column.type) for field in fields])

    def array(self, values: Sequence[Any]) -> pa.Array:
        missing = [one is None for one in values]
        if any(missing):
            values = [self._empty if one is None else one for one in values]
        mask = pa.array(missing) if any(missing) else None
        arrays = [field.array(values) for field in self.fields]
        return pa.StructArray.from_arrays(arrays, fields=list(self.type), mask=mask)


class Field:
    """A field of a message and the name of its column."""

    def __init__(self, descriptor: FieldDescriptor, name: str, item: Column) -> None:
        self.name = name
        self._field = descriptor.name
        self._get = attrgetter(descriptor.name)
        self._item = item
        self.column: Column = item
        if descriptor.is_repeated:
            self.column = _Simple(pa.list_(item.type))
            self.array = self._lists
        elif descriptor.has_presence:
            self.array = self._optional
        else:
            self.array = self._plain

    array: Callable[[Messages], pa.Array]

    def _plain(self, messages: Messages) -> pa.Array:
        return self._item.array(list(map(self._get, messages)))

    def _optional(self, messages: Messages) -> pa.Array:
        name, get = self._field, self._get
        return self._item.array([get(one) if one.HasField(name) else None for one in messages])

    def _lists(self, messages: Messages) -> pa.Array:
        lists = list(map(self._get, messages))
        items = self._item.array(list(chain.from_iterable(lists)))
        return pa.ListArray.from_arrays(_offsets(lists), items)


class MapField(Field):
    def __init__(self, descriptor: FieldDescriptor, name: str, key: Column, item: Column) -> None:
        super().__init__(descriptor, name, item)
        self._key = key
        self.column = _Simple(pa.map_(key.type, item.type))
        self.array = self._maps

    def _maps(self, messages: Messages) -> pa.Array:
        maps = [dict(one) for one in map(self._get, messages)]
        keys = self._key.array(list(chain.from_iterable(maps)))
        items = self._item.array(list(chain.from_iterable(one.values() for one in maps)))
        return pa.MapArray.from_arrays(_offsets(maps), keys, items)


def _offsets(parts: Sequence[Any]) -> pa.Array:
    offsets = np.zeros(len(parts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, parts), np.int32, len(parts)), out=offsets[1:])
    return pa.array(offsets)


def message_columns(descriptor: Descriptor) -> Struct:
    """The columns of a message. Raises FormatError if a table cannot have them."""
    fields = _Fields().of(descriptor, "", (descriptor.full_name,))
    if not fields:
        raise FormatError(f"the Protobuf message {descriptor.full_name} has no fields")
    return Struct(descriptor, fields)


class _Fields:
    """Converts the fields of messages, up to a number of all of them."""

    def __init__(self) -> None:
        self._left = MAX_PARTS

    def of(self, descriptor: Descriptor, path: str, inside: tuple[str, ...]) -> list[Field]:
        self._left -= len(descriptor.fields)
        if self._left < 0:
            raise FormatError(f"the Protobuf message has more than {MAX_PARTS} fields")
        fields: list[Field] = []
        by_column: dict[str, str] = {}
        for field in descriptor.fields:
            name = column_name(field.name) if path else field_column(field.name)
            where = f"{path}{field.name}"
            if name.lower() in by_column:
                raise FormatError(
                    f"Protobuf fields {path}{by_column[name.lower()]} and {where} both belong to"
                    f" column {path}{name}; rename one"
                )
            by_column[name.lower()] = field.name
            type_ = field.message_type
            if type_ is not None and type_.GetOptions().map_entry:
                key, item = type_.fields_by_name["key"], type_.fields_by_name["value"]
                keys = self._column(key, where, inside)
                fields.append(MapField(field, name, keys, self._column(item, where, inside)))
            else:
                fields.append(Field(field, name, self._column(field, where, inside)))
        return fields

    def _column(self, field: FieldDescriptor, path: str, inside: tuple[str, ...]) -> Column:
        """The column of a field, or of its items if it is repeated."""
        if field.cpp_type in _SIMPLE:
            return _Simple(_SIMPLE[field.cpp_type])
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            names = {value.number: value.name for value in reversed(field.enum_type.values)}
            return _Converted(pa.string(), lambda number: names.get(number) or str(number))
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            is_text = field.type == FieldDescriptor.TYPE_STRING
            return _Simple(pa.string() if is_text else pa.binary())
        return self._message_column(field.message_type, path, inside)

    def _message_column(self, type_: Descriptor, path: str, inside: tuple[str, ...]) -> Column:
        if type_.full_name == _TIMESTAMP:
            return _Timestamps()
        if type_.full_name in _AS_JSON:
            return _Converted(pa.string(), _json)
        if type_.file.name == _WRAPPERS:
            value = self._column(type_.fields_by_name["value"], path, inside)
            return _Converted(value.type, attrgetter("value"))
        if type_.full_name in inside:
            raise FormatError(
                f"Protobuf field {path}: {type_.full_name} holds itself; a table cannot"
            )
        fields = self.of(type_, f"{path}.", (*inside, type_.full_name))
        if not fields:
            return _Converted(pa.bool_(), lambda _: True)  # a table has no empty structs
        return Struct(type_, fields)


def _json(message: Any) -> str:
    return json.dumps(json_format.MessageToDict(message), ensure_ascii=False)
