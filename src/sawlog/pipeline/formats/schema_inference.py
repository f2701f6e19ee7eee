"""Schemas from DDL and Avro, and one schema from those that several tasks inferred.

If tasks inferred different types for a new field, the merged type holds all values; columns of the
table never change their type.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from sawlog.pipeline.formats.avro_schemas import from_avro
from sawlog.pipeline.formats.ddl import from_ddl
from sawlog.pipeline.formats.spark_types import MAX_DIGITS, ddl, is_list, plain, plain_schema

__all__ = ["Merged", "ddl", "from_avro", "from_ddl", "merge", "merge_types"]


class Merged(NamedTuple):
    schema: pa.Schema
    """The known columns, then the new ones in order of appearance."""
    clashes: list[str]
    """Columns that at least one found schema has with another type: parse its rows again."""


def merge(known: pa.Schema | None, *found: pa.Schema) -> Merged:
    """Merge schemas into one; `found` schemas may lack columns."""
    schema = plain_schema(known or pa.schema([]))
    bound = pa.struct(list(schema))
    for one in found:
        merged = _merge_structs(pa.struct(list(schema)), pa.struct(list(plain_schema(one))))
        schema = pa.schema(list(_keep(bound, merged)))
    clashes = {
        clash: None
        for one in found
        for clash in _differences(pa.struct(list(schema)), plain_schema(one), "")
    }
    return Merged(schema, list(clashes))


def merge_types(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that holds the values of both, text if there is no other."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _merge_structs(one, other)
    if is_list(one) and is_list(other):
        return pa.list_(merge_types(one.value_type, other.value_type))
    if are_maps(one, other):
        return pa.map_(one.key_type, merge_types(one.item_type, other.item_type))
    if _is_number(one) and _is_number(other):
        return _merge_numbers(one, other)
    return pa.string()


def are_maps(one: pa.DataType, other: pa.DataType) -> bool:
    return bool(pa.types.is_map(one) and pa.types.is_map(other) and one.key_type == other.key_type)


def _is_number(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )


def _merge_numbers(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(one) or pa.types.is_floating(other):
        return pa.float64()
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return one if one.bit_width >= other.bit_width else other
    scales = [type_.scale for type_ in (one, other) if pa.types.is_decimal(type_)]
    return pa.decimal128(MAX_DIGITS, max(scales))


def _merge_structs(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The fields of both; names that differ only in case are one field with the first name."""
    types = {part.name.lower(): (part.name, part.type) for part in one}
    for part in other:
        name, type_ = types.get(part.name.lower(), (part.name, pa.null()))
        types[part.name.lower()] = (name, merge_types(type_, part.type))
    return pa.struct([pa.field(name, type_) for name, type_ in types.values()])


def _keep(bound: pa.DataType, merged: pa.DataType) -> Iterator[pa.Field]:
    """The merged fields, with known types where there are any."""
    types = {part.name: part.type for part in bound}
    for part in merged:
        yield pa.field(part.name, _bound_type(types.get(part.name), part.type))


def _bound_type(bound: pa.DataType | None, merged: pa.DataType) -> pa.DataType:
    if bound is None:
        return merged
    if pa.types.is_struct(bound) and pa.types.is_struct(merged):
        return pa.struct(list(_keep(bound, merged)))
    if is_list(bound) and is_list(merged):
        return pa.list_(_bound_type(bound.value_type, merged.value_type))
    if are_maps(bound, merged):
        return pa.map_(bound.key_type, _bound_type(bound.item_type, merged.item_type))
    return bound


def _differences(schema: pa.DataType, found: pa.Schema | pa.DataType, path: str) -> Iterator[str]:
    """The paths of columns that `found` has with another type."""
    types = {part.name: part.type for part in schema}
    for part in found:
        here = f"{path}{part.name}"
        if part.name not in types:
            yield here
        else:
            yield from _type_differences(types[part.name], plain(part.type), here)


def _type_differences(type_: pa.DataType, found: pa.DataType, path: str) -> Iterator[str]:
    if pa.types.is_struct(type_) and pa.types.is_struct(found):
        yield from _differences(type_, found, f"{path}.")
    elif is_list(type_) and is_list(found):
        yield from _type_differences(type_.value_type, found.value_type, f"{path}[]")
    elif are_maps(type_, found):
        yield from _type_differences(type_.item_type, found.item_type, f"{path}{{}}")
    elif type_ != found:
        yield path
