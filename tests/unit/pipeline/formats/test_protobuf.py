"""Protobuf messages: their columns, presence, malformed bytes and descriptor files."""

import base64
import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import (
    descriptor_pb2,
    empty_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from sawlog.pipeline.formats import FormatError
from sawlog.pipeline.formats.schema_inference import ddl, from_ddl
from support.pipeline import formats
from support.pipeline.protobuf_messages import (
    descriptor_set,
    field,
    map_field,
    message,
    message_class,
    oneofs,
    optional,
    proto_file,
)

GOOGLE = [
    descriptor_pb2.FileDescriptorProto.FromString(one.DESCRIPTOR.serialized_pb)
    for one in (empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
]
COLOR = descriptor_pb2.EnumDescriptorProto(
    name="Color",
    value=[
        descriptor_pb2.EnumValueDescriptorProto(name="RED", number=0),
        descriptor_pb2.EnumValueDescriptorProto(name="BLUE", number=1),
    ],
)


def file_of(*messages: Any, **more: Any) -> descriptor_pb2.FileDescriptorProto:
    names = [one.name for one in GOOGLE]
    return proto_file("m.proto", "p", *messages, dependency=names, **more)


def parse(file: Any, *values: bytes | None, message: str = "", **more: Any) -> formats.Outcome:
    schema = base64.b64encode(descriptor_set(*GOOGLE, file)).decode()
    options = {"message": message} if message else {}
    return formats.parse("protobuf", *values, schema=schema, **options, **more)


def bytes_of(file: Any, name: str, **fields: Any) -> bytes:
    made: bytes = message_class(f"p.{name}", *GOOGLE, file)(**fields).SerializeToString()
    return made


def test_numbers_and_text_have_columns_that_hold_all_values() -> None:
    types = [
        ("int32", -(2**31)), ("sint64", -(2**63)), ("uint32", 2**32 - 1), ("uint64", 2**64 - 1),
        ("fixed64", 1), ("sfixed32", -1), ("float", 0.5), ("double", 0.1), ("bool", True),
        ("string", "ä"), ("bytes", b"\xff"),
    ]  # fmt: skip
    fields = [field(f"f_{type_}", number, type_) for number, (type_, _) in enumerate(types, 1)]
    file = file_of(message("M", *fields))
    row = {f"f_{type_}": value for type_, value in types}
    outcome = parse(file, bytes_of(file, "M", **row), b"")
    zeros = [0, 0, 0, 0, 0, 0, 0.0, 0.0, False, "", b""]
    assert outcome.rows == [row, dict(zip(row, zeros, strict=True))]
    assert ddl(outcome.schema) == (
        "f_int32 int, f_sint64 bigint, f_uint32 bigint, f_uint64 decimal(20,0),"
        " f_fixed64 decimal(20,0), f_sfixed32 int, f_float float, f_double double, f_bool boolean,"
        " f_string string, f_bytes binary"
    )


def test_fields_with_presence_are_null_if_they_are_not_set() -> None:
    file = file_of(
        message(
            "M", field("a", 1, "int32"), optional("b", 2, "int32", 1), field("c", 3, ".p.M.N"),
            field("d", 4, "int32", oneof_index=0), field("e", 5, "string", oneof_index=0),
            nested_type=[message("N", field("x", 1, "int32"))], oneof_decl=oneofs("de", "_b"),
        )
    )  # fmt: skip
    outcome = parse(file, b"", bytes_of(file, "M", b=0, c={}, e=""), message="p.M")
    assert outcome.rows == [
        {"a": 0, "b": None, "c": None, "d": None, "e": None},
        {"a": 0, "b": 0, "c": {"x": 0}, "d": None, "e": ""},
    ]


def test_lists_maps_and_enums() -> None:
    counts, entry = map_field(".p.M", "counts", 3, "string", "int64")
    parts, part_entry = map_field(".p.M", "parts", 4, "int32", ".p.N")
    file = file_of(
        message("N", field("x", 1, "string")),
        message("M", field("tags", 1, "repeated string"), field("items", 2, "repeated .p.N"),
                counts, parts, field("color", 5, "=.p.Color"),
                field("colors", 6, "repeated =.p.Color"), nested_type=[entry, part_entry]),
        enum_type=[COLOR],
    )  # fmt: skip
    full = bytes_of(
        file, "M", tags=["a", "b"], items=[{"x": "1"}, {}], counts={"k": 7},
        parts={1: {"x": "y"}}, color=1, colors=[0, 5],
    )  # fmt: skip
    outcome = parse(file, full, b"", message="p.M")
    assert outcome.rows == [
        {
            "tags": ["a", "b"], "items": [{"x": "1"}, {"x": ""}], "counts": [("k", 7)],
            "parts": [(1, {"x": "y"})], "color": "BLUE", "colors": ["RED", "5"],
        },
        {"tags": [], "items": [], "counts": [], "parts": [], "color": "RED", "colors": []},
    ]  # fmt: skip


def test_well_known_types() -> None:
    names = ["Timestamp", "StringValue", "UInt64Value", "Struct", "Empty"]
    fields = [field(f"f{n}", n, f".google.protobuf.{name}") for n, name in enumerate(names, 1)]
    file = file_of(message("M", *fields))
    made = message_class("p.M", *GOOGLE, file)()
    made.f1.FromJsonString("1969-12-31T23:59:59.999999999Z")
    made.f2.value, made.f3.value = "", 2**64 - 1
    made.f4.update({"a": [1.5, None]})
    made.f5.SetInParent()
    outcome = parse(file, made.SerializeToString(), b"")
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC)
    assert outcome.rows == [
        {"f1": moment, "f2": "", "f3": 2**64 - 1, "f4": '{"a": [1.5, null]}', "f5": True},
        dict.fromkeys(("f1", "f2", "f3", "f4", "f5")),
    ]
    made.f1.seconds = 253_402_300_800
    outcome = parse(file, b"", made.SerializeToString(), b"")
    assert len(outcome.rows) == 2
    assert outcome.bad[1].startswith("field f1: no timestamp of the years 1 to 9999")


def test_malformed_bytes_are_bad() -> None:
    file = file_of(message("M", field("text", 1, "string"), field("next", 2, "int64")))
    good = bytes_of(file, "M", text="x", next=1)
    outcome = parse(file, b"\x0a\x05x", good, None, b"\x0a\x01\xff", good[:-1])
    assert outcome.rows == [{"text": "x", "next": 1}]
    assert outcome.bad.keys() == {0, 2, 3, 4}
    assert outcome.bad[2] == "no value"
    assert "not such a Protobuf message" in outcome.bad[0]


def test_columns_of_the_record_and_of_the_table_bind() -> None:
    file = file_of(message("M", field("offset", 1, "int64"), field("more", 2, "int32")))
    values = [bytes_of(file, "M", offset=number) for number in (7, 2**40)]
    known = from_ddl("value_offset INT, gone STRING")
    outcome = parse(file, *values, known=known)
    assert outcome.rows == [{"value_offset": 7, "gone": None}]
    assert outcome.bad == {1: f"field value_offset: expected int, found {2**40}"}


@pytest.mark.parametrize(
    ("messages", "name", "told"),
    [
        ([message("M", field("m", 1, ".p.M"))], "p.M", "p.M holds itself"),
        ([message("M")], "p.M", "p.M has no fields"),
        ([message("M", field("a", 1, "int32"), field("A", 2, "int32"))], "p.M", "rename one"),
        (
            [message("M"), message("N")],
            "",
            "has 2 messages: name one with the option message: M, N",
        ),
        ([message("M")], "p.X", "has no message 'p.X'"),
        ([message("M", field("a", 1, ".p.Lost"))], "p.M", "do not fit together"),
    ],
)
def test_descriptors_without_columns_are_rejected(messages: Any, name: str, told: str) -> None:
    with pytest.raises(FormatError) as error:
        parse(file_of(*messages), message=name)
    assert told in str(error.value)


@pytest.mark.parametrize("data", [b"", b"junk"])
def test_a_file_that_is_no_descriptor_set_is_rejected(data: bytes) -> None:
    with pytest.raises(FormatError, match="descriptor set"):
        formats.parse("protobuf", schema=base64.b64encode(data).decode())


def test_no_values_are_one_part_with_all_columns() -> None:
    outcome = parse(file_of(message("M", field("a", 1, "int32"))))
    assert (outcome.rows, outcome.schema) == ([], pa.schema({"a": pa.int32()}))
