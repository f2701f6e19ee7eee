"""Arrow types as Delta types."""

import pyarrow as pa
import pytest
from deltalake import Schema

from sawlog.pipeline.delta.delta_types import TIMESTAMP, from_json, stored_schema, to_json
from sawlog.pipeline.delta.errors import InvalidColumn

EVERYTHING = pa.schema(
    [
        pa.field("text", pa.string()),
        pa.field("long", pa.int64()),
        pa.field("int", pa.int32()),
        pa.field("short", pa.int16()),
        pa.field("byte", pa.int8()),
        pa.field("float", pa.float32()),
        pa.field("double", pa.float64()),
        pa.field("flag", pa.bool_()),
        pa.field("bytes", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("time", TIMESTAMP),
        pa.field("money", pa.decimal128(12, 2)),
        pa.field("list", pa.list_(pa.field("element", pa.int64()))),
        pa.field("map", pa.map_(pa.string(), pa.int64())),
        pa.field("struct", pa.struct([pa.field("a", pa.int64()), pa.field("b c", pa.string())])),
    ]
)


def test_every_stored_type_round_trips() -> None:
    assert from_json(to_json(EVERYTHING)).equals(EVERYTHING)
    assert stored_schema(EVERYTHING).equals(EVERYTHING)


def test_deltalake_reads_the_same_schema() -> None:
    theirs = pa.schema(Schema.from_json(to_json(EVERYTHING)).to_arrow())
    assert [(field.name, field.type) for field in stored_schema(theirs)] == [
        (field.name, field.type) for field in EVERYTHING
    ]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pa.uint8(), pa.int16()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.binary(4), pa.binary()),
        (pa.timestamp("ms", tz="Europe/Berlin"), TIMESTAMP),
        (pa.timestamp("ns"), TIMESTAMP),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.large_list(pa.uint8()), pa.list_(pa.field("element", pa.int16()))),
        (pa.struct([pa.field("t", pa.timestamp("s"))]), pa.struct([pa.field("t", TIMESTAMP)])),
    ],
)
def test_types_that_delta_lacks_are_stored_as_wider_types(
    given: pa.DataType, stored: pa.DataType
) -> None:
    assert stored_schema(pa.schema([pa.field("a", given)])).field("a").type == stored


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.null(), "void"),
        (pa.time64("us"), "time"),
        (pa.duration("s"), "interval day to second"),
        (pa.decimal256(50, 2), r"decimal\(50,2\)"),
    ],
)
def test_an_unsupported_type_is_rejected_with_its_column(kind: pa.DataType, name: str) -> None:
    nested = pa.struct([pa.field("inner", kind)])
    with pytest.raises(InvalidColumn, match=rf"'outer\.inner' is of type {name}, which Delta"):
        stored_schema(pa.schema([pa.field("outer", nested)]))


def test_names_that_differ_only_in_case_are_rejected() -> None:
    schema = pa.schema([pa.field("Name", pa.string()), pa.field("name", pa.string())])
    with pytest.raises(InvalidColumn, match="'Name' and 'name' differ only in case"):
        stored_schema(schema)


def test_an_unknown_type_is_rejected() -> None:
    nested = pa.schema([pa.field("outer", pa.list_(pa.struct([pa.field("inner", pa.int16())])))])
    text = to_json(nested).replace('"short"', '"variant"')
    with pytest.raises(
        InvalidColumn, match=r"'outer\.element\.inner' is of type variant, which no"
    ):
        from_json(text)
