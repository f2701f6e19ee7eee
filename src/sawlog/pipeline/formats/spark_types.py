"""The types that a table can have, under their Spark names, and valid column names.

Many Arrow types map to the same table type: `plain` returns the one used here, so that types can be
compared. All columns are nullable.
"""

import re
from collections.abc import Collection

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
SIMPLE: dict[str, pa.DataType] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_WORDS = {type_: type_name for type_name, type_ in SIMPLE.items()}
_NEAREST = {
    pa.null(): "void",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.date64(): "date",
    pa.month_day_nano_interval(): "interval",
}
MAX_DIGITS = 38
MAX_PARTS = 10_000
"""Columns and fields of a schema: types that use each other could have any number."""
# Years 1 to 9999, in seconds: Spark has more years, Python and many readers do not.
FIRST_S, END_S = -62_135_596_800, 253_402_300_800
FIRST_MS, LAST_MS = FIRST_S * 1_000, END_S * 1_000 - 1
# Delta tables without column mapping, which old readers lack, reject some of these characters;
# some readers crash on NUL, and control characters are of no use.
_REFUSED = re.compile(r"[\x00-\x1f\x7f ,;{}()=]")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def plain(type_: pa.DataType) -> pa.DataType:
    """The Arrow type used for a table type."""
    if pa.types.is_dictionary(type_):
        return plain(type_.value_type)
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    if (
        pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
        or pa.types.is_fixed_size_binary(type_)
    ):
        return pa.binary()
    if pa.types.is_timestamp(type_):
        return TIMESTAMP
    if pa.types.is_map(type_):
        return pa.map_(plain(type_.key_type), plain(type_.item_type))
    if is_list(type_):
        return pa.list_(plain(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(part.name, plain(part.type)) for part in type_])
    return type_


def is_list(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_list_view(type_)
        or pa.types.is_large_list_view(type_)
        or pa.types.is_fixed_size_list(type_)
    )


def plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(part.name, plain(part.type)) for part in schema])


def type_name(type_: pa.DataType) -> str:
    """The type in Spark SQL, for messages; types that no table has get the nearest SQL name."""
    if isinstance(type_, pa.BaseExtensionType):
        return type_name(type_.storage_type)
    if pa.types.is_run_end_encoded(type_):
        return type_name(type_.value_type)
    type_ = plain(type_)
    if type_ in _WORDS:
        return _WORDS[type_]
    if type_ in _NEAREST:
        return _NEAREST[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_map(type_):
        return f"map<{type_name(type_.key_type)},{type_name(type_.item_type)}>"
    if is_list(type_):
        return f"array<{type_name(type_.value_type)}>"
    if pa.types.is_struct(type_):
        parts = (f"{quoted(part.name)}:{type_name(part.type)}" for part in type_)
        return f"struct<{','.join(parts)}>"
    if pa.types.is_union(type_):
        return f"union<{','.join(type_name(part.type) for part in type_)}>"
    if pa.types.is_time(type_):
        return "time"
    return "interval day to second" if pa.types.is_duration(type_) else str(type_)


def ddl(schema: pa.Schema) -> str:
    """The schema as DDL, which `from_ddl` parses."""
    return ", ".join(f"{quoted(part.name)} {type_name(part.type)}" for part in schema)


def quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


RECORD_NAMES = ("topic", "partition", "offset", "timestamp", "key")
"""The columns of the record itself, which every table has."""


def field_column(name: str, generated: Collection[str] = ()) -> str:
    """The column of a top-level field; names of record columns and `generated` columns get a
    prefix.
    """
    column = column_name(name)
    while column.lower() in RECORD_NAMES or column.lower() in generated:
        column = f"value_{column}"
    return column


def column_name(field: str) -> str:
    """The column name for a field of any name."""
    return _REFUSED.sub("_", field) or "_"
