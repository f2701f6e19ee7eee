"""Avro records: schemas, encodings and malformed bytes."""

import datetime as dt
import io
import json
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form

from sawlog.pipeline.formats import FormatError
from sawlog.pipeline.formats.schema_inference import ddl, from_avro, from_ddl
from support.pipeline.formats import parse

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Click",
        "fields": [
            {"name": "user", "type": "string"},
            {"name": "count", "type": ["null", "long"]},
        ],
    }
)
ROW = {"user": "ann", "count": 3}


def record_schema(*fields: Any) -> str:
    named = [{"name": f"f{number}", "type": type_} for number, type_ in enumerate(fields)]
    return json.dumps({"type": "record", "name": "R", "fields": named})


def named_schema(*names: str) -> str:
    fields = [{"name": name, "type": "int"} for name in names]
    return json.dumps({"type": "record", "name": "N", "fields": fields})


def body(record: dict[str, Any], schema: str = SCHEMA) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(schema), record)
    return out.getvalue()


def single_object(record: dict[str, Any], schema: str = SCHEMA) -> bytes:
    canonical = to_parsing_canonical_form(json.loads(schema))
    return b"\xc3\x01" + bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO")) + body(record, schema)


def test_plain_records_and_single_objects_are_distinguished() -> None:
    values = (body(ROW), single_object(ROW), body({"user": "", "count": None}))
    outcome = parse("avro", *values, schema=SCHEMA)
    assert outcome.rows == [ROW, ROW, {"user": "", "count": None}]
    assert outcome.schema == pa.schema({"user": pa.string(), "count": pa.int64()})


def test_a_confluent_header_is_rejected_unless_configured() -> None:
    value = b"\x00\x00\x00\x00\x07" + body(ROW)
    refused = parse("avro", value, body(ROW), schema=SCHEMA)
    assert "magic byte 0, schema id 7" in refused.bad[0]
    assert "set encoding: confluent and schema_id: 7" in refused.bad[0]
    assert refused.rows == [ROW]
    taken = parse("avro", value, body(ROW), schema=SCHEMA, encoding="confluent", schema_id="7")
    assert taken.rows == [ROW]
    assert "no Confluent header" in taken.bad[1]


def test_a_confluent_schema_id_that_the_schema_is_not_for_is_a_dead_letter() -> None:
    """Fields of the same type in another order would land in the wrong columns."""
    schema, swapped = named_schema("width", "height"), named_schema("height", "width")
    row = {"width": 1, "height": 2}
    values = [
        b"\x00" + id_.to_bytes(4, "big") + body(row, swapped if id_ == 8 else schema)
        for id_ in (7, 8, 300)
    ]
    outcome = parse("avro", *values, schema=schema, encoding="confluent", schema_id="300,7")
    assert outcome.rows == [row, row]
    assert outcome.bad == {
        1: "written with another Avro schema: schema id 8, accepted are 7, 300",
    }


@pytest.mark.parametrize("value", [b"\x01\x00\x00\x00\x07" + body(ROW), b"\x00\x00\x00\x07", b""])
def test_another_magic_byte_or_a_cut_header_is_a_dead_letter(value: bytes) -> None:
    outcome = parse("avro", value, schema=SCHEMA, encoding="confluent", schema_id="7")
    assert outcome.bad == {0: "no Confluent header: expected a zero byte and four of a schema id"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"encoding": "confluent"}, r"needs schema_id, .*: write schema_id: 7 or schema_id: \["),
        ({"encoding": "confluent", "schema_id": ""}, "schema_id .* is ''; expected an id"),
        ({"encoding": "confluent", "schema_id": "7,x"}, "is '7,x'; expected an id"),
        ({"encoding": "confluent", "schema_id": "-1"}, "is '-1'; expected an id"),
        ({"encoding": "confluent", "schema_id": "2147483648"}, "from 0 to 2147483647"),
        ({"encoding": "plain", "schema_id": "7"}, "schema_id .* is for encoding: confluent"),
        ({"schema_id": "7"}, "schema_id .* is for encoding: confluent"),
    ],
)
def test_schema_ids_are_required_for_confluent_and_rejected_elsewhere(
    options: dict[str, str], text: str
) -> None:
    with pytest.raises(FormatError, match=text):
        parse("avro", schema=SCHEMA, **options)


def test_a_header_with_another_fingerprint_is_never_read_as_a_plain_record() -> None:
    """A first field of -98 is encoded as the two bytes that start the header."""
    schema = record_schema("int", "long")
    value = body({"f0": -98, "f1": 2**60}, schema)
    assert value.startswith(b"\xc3\x01")
    assert len(value) > 10
    outcome = parse("avro", value, value[:2] + b"\x00", schema=schema)
    assert "written with another Avro schema: fingerprint" in outcome.bad[0]
    assert "if this is a plain record, set encoding: plain" in outcome.bad[0]
    assert outcome.rows == [{"f0": -98, "f1": 0}]
    assert parse("avro", value, schema=schema, encoding="plain").bad == {}


def test_a_single_object_of_another_schema_is_rejected() -> None:
    other = record_schema("string", "long")
    value = single_object({"f0": "x", "f1": 1}, other)
    outcome = parse("avro", value, body(ROW), schema=SCHEMA, encoding="single-object")
    assert "written with another Avro schema" in outcome.bad[0]
    assert "no single-object header" in outcome.bad[1]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"", "EOFError"),
        (body(ROW)[:-1], "not such an Avro record"),
        (body(ROW) + b"x", "1 bytes are left"),
        (b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", "not such an Avro record"),
        (b"\x02\xff\x00", "UnicodeDecodeError"),
        (b"\x00\x09", "not such an Avro record"),
    ],
)
def test_malformed_records_are_bad_and_their_neighbours_are_not(
    value: bytes | None, reason: str
) -> None:
    outcome = parse("avro", body(ROW), value, body(ROW), schema=SCHEMA)
    assert outcome.rows == [ROW, ROW]
    assert reason in outcome.bad[1]


def test_all_types_become_columns() -> None:
    schema = record_schema(
        "boolean",
        "int",
        "float",
        "bytes",
        {"type": "int", "logicalType": "date"},
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "time-micros"},
        {"type": "string", "logicalType": "uuid"},
        {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "array", "items": ["null", "string"]},
        {"type": "map", "values": "long"},
        {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "E"}]},
        ["null", "Inner"],
        ["int", "long"],
    )
    when = dt.datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=dt.UTC)
    number = uuid.UUID(int=7)
    row: dict[str, Any] = {
        "f0": True, "f1": -1, "f2": 0.5, "f3": b"\xff", "f4": dt.date(2024, 2, 29), "f5": when,
        "f6": dt.time(1, 2, 3, 4), "f7": number, "f8": Decimal("1.25"), "f9": "B",
        "f10": ["x", None], "f11": {"k": 1}, "f12": {"x": "A"}, "f13": None, "f14": 5,
    }  # fmt: skip
    outcome = parse("avro", body(row, schema), schema=schema)
    assert outcome.bad == {}
    expected = row | {"f6": "01:02:03.000004", "f7": str(number), "f11": [("k", 1)]}
    assert outcome.rows == [expected]
    assert ddl(outcome.schema) == (
        "f0 boolean, f1 int, f2 float, f3 binary, f4 date, f5 timestamp, f6 string, f7 string,"
        " f8 decimal(6,2), f9 string, f10 array<string>, f11 map<string,bigint>,"
        " f12 struct<x:string>, f13 struct<x:string>, f14 bigint"
    )


@pytest.mark.parametrize(
    ("type_", "number"),
    [
        ({"type": "int", "logicalType": "time-millis"}, -2),
        ({"type": "int", "logicalType": "time-millis"}, 86_400_000),
        (["null", {"type": "long", "logicalType": "time-micros"}], -2),
        ({"type": "array", "items": {"type": "long", "logicalType": "time-micros"}}, -2),
    ],
)
def test_a_time_before_or_after_the_day_is_a_dead_letter(type_: Any, number: int) -> None:
    plain = json.loads(json.dumps(type_).replace("logicalType", "was"))
    wrong, right = ([n] if "items" in str(type_) else n for n in (number, 1_000))
    values = [body({"f0": value}, record_schema(plain)) for value in (wrong, right)]
    outcome = parse("avro", *values, schema=record_schema(type_))
    assert "microseconds after midnight are no time of a day" in outcome.bad[0]
    assert len(outcome.rows) == 1


def test_a_decimal_with_more_digits_than_its_schema_says_is_a_dead_letter() -> None:
    schema = record_schema({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2})
    values = [
        b"\x06" + unscaled.to_bytes(3, "big", signed=True) for unscaled in (9999, 12346, -1234567)
    ]
    outcome = parse("avro", *values, schema=schema)
    assert outcome.rows == [{"f0": Decimal("99.99")}]
    assert list(outcome.bad) == [1, 2]


def test_a_field_named_as_one_of_the_record_s_columns_gets_a_prefix() -> None:
    schema = SCHEMA.replace('"user"', '"topic"')
    value = body({"topic": "x", "count": 1}, schema)
    assert parse("avro", value, schema=schema).rows == [{"value_topic": "x", "count": 1}]


def test_a_wider_schema_adds_columns_and_a_conflicting_one_is_rejected() -> None:
    known = from_ddl("old string, user string")
    outcome = parse("avro", body(ROW), known=known, infer=True, schema=SCHEMA)
    assert outcome.rows == [{"old": None, **ROW}]
    narrow = parse("avro", body(ROW), known=known, schema=SCHEMA)
    assert narrow.rows == [{"old": None, "user": "ann"}]
    with pytest.raises(FormatError, match="does not fit the table's columns user"):
        parse("avro", known=from_ddl("user bigint"), schema=SCHEMA)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("{", "not an Avro schema: JSONDecodeError"),
        ('{"type": "record", "fields": []}', "not an Avro schema"),
        ('"string"', "must be that of a record"),
        ('{"type": "record", "name": "R", "fields": []}', "a record without fields"),
        (record_schema("Missing"), "not an Avro schema"),
        (record_schema(["string", "long"]), "field f0: a union of 2 unlike types"),
        (record_schema({"type": "array", "items": "R"}), "field f0.*: R holds itself"),
        (record_schema({"type": "array", "items": "null"}), "f0"),
        (
            record_schema(
                {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}
            ),
            "an array of something that takes no bytes",
        ),
        (
            record_schema({"type": "bytes", "logicalType": "decimal", "precision": 39}),
            "a table has 1 to 38 digits",
        ),
        (record_schema({"type": "bytes", "logicalType": "decimal"}), "a table has 1 to 38 digits"),
        (named_schema("id", "name", "ID"), "fields id and ID both belong to column ID"),
        (named_schema("id", "id"), "fields id and id both belong to column id"),
        (named_schema("key", "value_key"), "key and value_key both belong to column value_key"),
        (
            record_schema(json.loads(named_schema("x", "X"))),
            r"fields f0\.x and f0\.X both belong to column f0\.X",
        ),
    ],
)
def test_schemas_that_no_table_can_have_are_rejected(schema: str, text: str) -> None:
    with pytest.raises(FormatError, match=text):
        from_avro(schema)


def test_a_schema_is_needed_and_an_encoding_must_be_known() -> None:
    with pytest.raises(FormatError, match="avro needs a schema"):
        parse("avro")
    with pytest.raises(FormatError, match="expected one of: auto, plain, single-object"):
        parse("avro", schema=SCHEMA, encoding="registry")
