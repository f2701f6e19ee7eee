"""Values of confluent-kafka's serializers, parsed with the schemas of a registry."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.pipeline.formats import Format, parser, parser_input
from sawlog.pipeline.formats.avro_decoder import AvroDecoder
from sawlog.pipeline.formats.decoded import Decoder
from sawlog.pipeline.formats.protobuf_decoder import ProtobufDecoder
from sawlog.pipeline.formats.schema_inference import ddl, from_ddl
from sawlog.pipeline.registry import registry_client
from sawlog.pipeline.registry.registry_client import RegistryUnavailable
from sawlog.pipeline.registry.registry_url import registry_url
from support.pipeline.confluent_values import Sent, Serializers, record_batch
from support.pipeline.formats import Outcome, outcome_of
from support.pipeline.protobuf_messages import field, message, message_class, proto_file
from support.pipeline.schema_registry import Answer, SchemaRegistry, running_registry

ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
ORDER_1 = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "ship", "type": ADDRESS}],
}
ORDER_2 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "ship",
            "type": {
                **ADDRESS,
                "fields": [
                    {"name": "zip", "type": ["null", "string"], "default": None},
                    {"name": "city", "type": "string"},
                ],
            },
        },
        {"name": "note", "type": "string", "default": "none"},
    ],
}
ROW_1 = {"id": 1, "ship": {"city": "Bonn"}}
ROW_2 = {"id": 2, "ship": {"zip": "53111", "city": "Bonn"}, "note": "x"}
CLICK = proto_file(
    "click.proto", "shop",
    message("Other", field("text", 1, "string")),
    message("Click", field("user", 1, "string"), field("count", 2, "int64"),
            nested_type=[message("Inner", field("deep", 1, "bool"))]),
)  # fmt: skip
JSON_ORDER = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "ship": {"$ref": "#/definitions/address"},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "any": {},
    },
    "definitions": {"address": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as running:
        yield running


@pytest.fixture(params=[False, True], ids=["framed", "in-header"])
def serializers(registry: SchemaRegistry, request: pytest.FixtureRequest) -> Iterator[Serializers]:
    with Serializers(registry.url, in_header=request.param) as made:
        yield made


def parse(
    registry: SchemaRegistry,
    kind: Any,
    *sent: Sent | bytes | None,
    known: pa.Schema | None = None,
    infer: bool = True,
    columns_are_final: bool = False,
    **options: str,
) -> Outcome:
    format_ = Format(kind, options, registry_url([registry.url], {}, {}))
    parse_values = parser(format_, known, infer=infer, columns_are_final=columns_are_final)
    return outcome_of(parse_values(parser_input(format_, record_batch(*sent))), len(sent))


def test_avro_records_are_read_with_the_schema_of_their_writer(
    registry: SchemaRegistry, serializers: Serializers
) -> None:
    old, new = serializers.avro(ORDER_1, ROW_1), serializers.avro(ORDER_2, ROW_2)
    outcome = parse(registry, "avro", old, new, b"\0\0\0", old, None)
    first = {"id": 1, "ship": {"city": "Bonn", "zip": None}, "note": None}
    second = {"id": 2, "ship": {"city": "Bonn", "zip": "53111"}, "note": "x"}
    assert outcome.rows == [first, second, first]
    assert outcome.bad.keys() == {2, 4}
    assert outcome.bad[4] == "no value"
    assert ddl(outcome.schema) == "id bigint, ship struct<city:string,zip:string>, note string"


def test_a_header_is_read_before_the_value(registry: SchemaRegistry) -> None:
    with Serializers(registry.url, in_header=True) as serializers:
        sent = serializers.avro(ORDER_1, ROW_1)
        ((name, guid),) = sent.headers
        assert (name, guid[0], len(guid)) == ("__value_schema_id", 1, 17)
    framed = Sent(guid + sent.value, [])
    by_id = Sent(sent.value, [(name, b"\0\0\0\0\1")])
    wrong = Sent(framed.value, [(name, b"\0\0\0\0\1")])
    outcome = parse(registry, "avro", sent, framed, by_id, wrong, Sent(sent.value, [(name, b"x")]))
    assert outcome.rows == [ROW_1] * 3
    assert "not such an Avro record" in outcome.bad[3]
    assert outcome.bad[4].startswith("header __value_schema_id: no Confluent header")


def test_columns_of_the_table_bind_and_what_does_not_fit_is_bad(registry: SchemaRegistry) -> None:
    with Serializers(registry.url) as serializers:
        fits = serializers.avro(ORDER_2, ROW_2)
        large = serializers.avro(ORDER_2, {**ROW_2, "id": 2**40})
    known = from_ddl("id INT, ship STRUCT<city: STRING>")
    outcome = parse(registry, "avro", fits, large, known=known)
    assert ddl(outcome.schema) == "id int, ship struct<city:string,zip:string>, note string"
    assert (len(outcome.rows), outcome.bad) == (1, {1: f"field id: expected int, found {2**40}"})
    final = parse(registry, "avro", fits, known=known, columns_are_final=True)
    assert ddl(final.schema) == "id int, ship struct<city:string>"
    assert final.bad.keys() == {0}
    declared = parse(registry, "avro", fits, large, known=known, infer=False)
    assert declared.rows == [{"id": 2, "ship": {"city": "Bonn"}}]


def test_a_readers_schema_resolves_avro_records(
    registry: SchemaRegistry, serializers: Serializers
) -> None:
    reader = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "number", "aliases": ["id"], "type": "double"},
            {"name": "note", "type": "string", "default": "none"},
        ],
    }
    sent = serializers.avro(ORDER_1, ROW_1), serializers.avro(ORDER_2, ROW_2)
    outcome = parse(registry, "avro", *sent, schema=json.dumps(reader), encoding="confluent")
    assert outcome.rows == [{"number": 1.0, "note": "none"}, {"number": 2.0, "note": "x"}]
    strict = {**reader, "fields": [{"name": "absent", "type": "int"}]}
    outcome = parse(registry, "avro", sent[0], schema=json.dumps(strict))
    assert "absent" in outcome.bad[0]
    assert "schema " in outcome.bad[0]


def test_avro_references_are_fetched(registry: SchemaRegistry, serializers: Serializers) -> None:
    sent = serializers.avro(ORDER_1, ROW_1)
    registry.register("address", {"schema": json.dumps(ADDRESS)})
    fields = [{"name": "id", "type": "int"}, {"name": "ship", "type": "Address"}]
    document = {
        "schema": json.dumps({"type": "record", "name": "Order", "fields": fields}),
        "references": [{"name": "Address", "subject": "address", "version": 1}],
    }
    stored = registry.register("t-value", document)
    body = sent.value if sent.headers else sent.value[5:]
    outcome = parse(registry, "avro", b"\0" + stored.id.to_bytes(4, "big") + body)
    assert outcome.rows == [ROW_1]


def test_protobuf_messages_are_found_by_their_place(
    registry: SchemaRegistry, serializers: Serializers
) -> None:
    click, other, inner = (
        message_class(f"shop.{name}", CLICK) for name in ("Click", "Other", "Click.Inner")
    )
    outcome = parse(
        registry, "protobuf",
        serializers.protobuf(click(user="ann", count=3)),
        serializers.protobuf(other(text="x")),
        serializers.protobuf(click()),
        serializers.protobuf(inner(deep=True)),
        b"\0\0\0\0\1\x04\x02",
    )  # fmt: skip
    assert outcome.rows == [
        {"user": "ann", "count": 3, "text": None, "deep": None},
        {"user": None, "count": None, "text": "x", "deep": None},
        {"user": "", "count": 0, "text": None, "deep": None},
        {"user": None, "count": None, "text": None, "deep": True},
    ]
    assert outcome.bad == {4: "no place of a Protobuf message follows the schema id"}


def test_protobuf_imports_are_fetched(registry: SchemaRegistry, serializers: Serializers) -> None:
    from google.protobuf import timestamp_pb2
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.type import date_pb2

    google = [
        FileDescriptorProto.FromString(one.DESCRIPTOR.serialized_pb)
        for one in (timestamp_pb2, date_pb2)
    ]
    base = proto_file("lib/base.proto", "lib", message("Base", field("text", 1, "string")))
    main = proto_file(
        "main.proto", "shop",
        message("Main", field("base", 1, ".lib.Base"), field("at", 2, ".google.protobuf.Timestamp"),
                field("day", 3, ".google.type.Date")),
        dependency=["lib/base.proto", *(one.name for one in google)],
    )  # fmt: skip
    made = message_class("shop.Main", *google, base, main)()
    made.base.text = "x"
    made.at.FromJsonString("2024-02-29T12:00:00Z")
    made.day.year = 2024
    outcome = parse(registry, "protobuf", serializers.protobuf(made))
    (row,) = outcome.rows
    assert row["base"] == {"text": "x"}
    assert row["at"].isoformat() == "2024-02-29T12:00:00+00:00"
    assert row["day"] == {"year": 2024, "month": 0, "day": 0}


def test_json_schemas_give_the_types(registry: SchemaRegistry, serializers: Serializers) -> None:
    row = {"id": 1, "price": 2, "tags": ["a"], "ship": {"city": "Bonn"}, "any": [1], "more": True}
    sent = serializers.json(JSON_ORDER, row)
    outcome = parse(registry, "json", b"{}", sent, serializers.json(JSON_ORDER, {"id": 2}), None)
    empty = dict.fromkeys(("price", "tags", "ship", "note", "any", "more"))
    assert outcome.rows == [{**row, "price": 2.0, "note": None}, {**empty, "id": 2}]
    assert outcome.bad == {0: outcome.bad[0], 3: "no value"}
    assert "no Confluent header" in outcome.bad[0]
    assert ddl(outcome.schema) == (
        "id bigint, price double, tags array<string>, ship struct<city:string>, note string,"
        " `any` array<bigint>, more boolean"
    ).replace("`any`", "any")


def test_json_is_unframed_without_a_registry(
    registry: SchemaRegistry, serializers: Serializers
) -> None:
    sent = serializers.json(JSON_ORDER, {"id": 1, "price": 2})
    format_ = Format("json", {"encoding": "confluent"})
    batch = record_batch(sent, b"{}", sent)
    asked = len(registry.requests)
    outcome = outcome_of(parser(format_, None, infer=True)(parser_input(format_, batch)), 3)
    assert outcome.rows == [{"id": 1, "price": 2}] * 2
    assert outcome.bad.keys() == {1}
    assert len(registry.requests) == asked


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_ids_that_the_registry_does_not_know_are_bad(registry: SchemaRegistry, kind: str) -> None:
    guid = bytes(range(16))
    outcome = parse(registry, kind, b"\0\0\0\0\x09\0{}", b"\1" + guid + b"\0{}", b"\0\0\0\0\x09\0")
    assert outcome.bad == {
        0: "schema id 9: the registry has no such schema",
        1: "schema GUID 00010203-0405-0607-0809-0a0b0c0d0e0f: the registry has no such schema",
        2: "schema id 9: the registry has no such schema",
    }
    assert [one for one in registry.requests if "ids/9" in one] == [
        "GET /schemas/ids/9" + ("?format=serialized" if kind == "protobuf" else "")
    ]


def test_a_schema_of_another_type_or_without_columns_is_bad(registry: SchemaRegistry) -> None:
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    ids = [
        registry.register("s", document).id
        for document in (
            {"schema": "{}", "schemaType": "JSON"}, {"schema": json.dumps(node)},
            {"schema": '"string"'}, {"schema": "{"},
            {"schema": "bm8=", "schemaType": "PROTOBUF"},
        )
    ]  # fmt: skip
    values = [b"\0" + number.to_bytes(4, "big") + b"\0" for number in ids]
    outcome = parse(registry, "avro", *values)
    assert outcome.bad[0] == "schema id 1 is of type JSON, expected avro"
    assert "N holds itself" in outcome.bad[1]
    assert "must be that of a record" in outcome.bad[2]
    assert "not an Avro schema" in outcome.bad[3]
    assert "Protobuf" in parse(registry, "protobuf", values[4]).bad[0]
    assert outcome.rows == []


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_a_registry_that_does_not_answer_makes_no_value_bad(
    registry: SchemaRegistry, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_client, "_PAUSES_S", ())
    registry.script = lambda _path: Answer(503, {})
    with pytest.raises(RegistryUnavailable):
        parse(registry, kind, b"\0\0\0\0\1\0{}")


def test_numbers_of_another_version_keep_their_value(registry: SchemaRegistry) -> None:
    def sent(type_: Any, value: Any) -> Sent:
        schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": type_}]}
        return serializers.avro(schema, {"n": value})

    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    with Serializers(registry.url) as serializers:
        values = [
            sent("int", 1), sent("double", 0.5), sent("double", 0.1), sent("long", 2**60),
            sent(decimal, Decimal("1.25")), sent("string", "1"), sent("boolean", True),
        ]  # fmt: skip
    float_, int_ = pa.schema({"n": pa.float32()}), pa.schema({"n": pa.int32()})
    outcome = parse(registry, "avro", *values, known=float_)
    assert (outcome.rows, [*outcome.bad]) == ([{"n": 1.0}, {"n": 0.5}], [2, 3, 4, 5, 6])
    outcome = parse(registry, "avro", *values, known=int_)
    assert (outcome.rows, [*outcome.bad]) == ([{"n": 1}], [1, 2, 3, 4, 5, 6])
    outcome = parse(registry, "avro", *values)
    assert [row["n"] for row in outcome.rows] == [
        "1",
        "0.5",
        "0.1",
        str(2**60),
        "1.25",
        "1",
        "true",
    ]


def test_structs_in_lists_and_maps_get_new_fields(registry: SchemaRegistry) -> None:
    def sent(*names: str) -> Sent:
        fields = [{"name": name, "type": "int"} for name in names]
        part = {"type": "record", "name": "P", "fields": fields}
        schema = {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "l", "type": {"type": "array", "items": part}},
                {"name": "m", "type": {"type": "map", "values": "P"}},
            ],
        }
        row = dict.fromkeys(names, 1)
        return serializers.avro(schema, {"l": [row], "m": {"k": row}})

    with Serializers(registry.url) as serializers:
        values = sent("a"), sent("a", "b")
    known = from_ddl("l ARRAY<STRUCT<a: INT>>, m MAP<STRING, STRUCT<a: INT>>")
    for before in (known, None):
        outcome = parse(registry, "avro", *values, known=before)
        assert outcome.rows == [
            {"l": [{"a": 1, "b": b}], "m": [("k", {"a": 1, "b": b})]} for b in (None, 1)
        ]


DECODERS: list[Decoder] = [
    AvroDecoder(json.dumps(ORDER_2)),
    ProtobufDecoder(message_class("shop.Click", CLICK).DESCRIPTOR),
]


@given(st.lists(st.binary(max_size=30), max_size=5), st.sampled_from(DECODERS))
def test_any_bytes_are_a_row_or_bad(payloads: list[bytes], decoder: Decoder) -> None:
    decoded = decoder.decode(payloads)
    decoded.rows.validate(full=True)
    assert decoded.rows.num_rows + len(decoded.bad) == len(payloads)
    assert set(decoded.bad) <= set(range(len(payloads)))
