"""Keys of confluent-kafka's serializers as JSON, by the schemas of a registry."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sawlog.pipeline.formats.landed_rows import HEADERS
from sawlog.pipeline.formats.registry_keys import FramedKeys
from sawlog.pipeline.registry import registry_client
from sawlog.pipeline.registry.registry_client import RegistryUnavailable
from sawlog.pipeline.registry.registry_url import registry_url
from support.pipeline.confluent_values import Sent, Serializers
from support.pipeline.protobuf_messages import field, message, message_class, proto_file
from support.pipeline.schema_registry import Answer, SchemaRegistry, running_registry

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"},
                                                   {"name": "at", "type": "string"}]}  # fmt: skip
JSON_KEY = {"title": "Key", "type": "object", "properties": {"id": {"type": "integer"}}}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as running:
        yield running


@pytest.fixture(params=[False, True], ids=["framed", "in-header"])
def serializers(registry: SchemaRegistry, request: pytest.FixtureRequest) -> Iterator[Serializers]:
    with Serializers(registry.url, in_header=request.param, is_key=True) as made:
        yield made


def records_of(*sent: Sent | bytes | None) -> pa.RecordBatch:
    keys = [one.value if isinstance(one, Sent) else one for one in sent]
    headers = [one.headers if isinstance(one, Sent) else [] for one in sent]
    entries = [[{"key": name, "value": value} for name, value in one] for one in headers]
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.binary()), pa.array(entries, HEADERS)], names=["key", "headers"]
    )


def as_json(
    registry: SchemaRegistry | None, *sent: Sent | bytes | None
) -> tuple[list[Any], dict[int, str]]:
    keys = FramedKeys(None if registry is None else registry_url([registry.url], {}, {}))
    found, bad = keys.to_json(records_of(*sent))
    return [None if key is None else json.loads(key) for key in found.to_pylist()], bad


def test_keys_of_every_kind_of_schema_become_json(
    registry: SchemaRegistry, serializers: Serializers
) -> None:
    inner = message("Key", field("id", 1, "int64"), field("at", 2, "string"))
    file = proto_file("key.proto", "shop", message("Other", field("x", 1, "bool")), inner)
    sent = [
        serializers.avro(KEY, {"id": 7, "at": "Köln"}),
        serializers.avro("long", 2**53 + 1),
        serializers.avro("string", 'a "quoted" key'),
        serializers.protobuf(message_class("shop.Key", file)(id=8, at="x")),
        serializers.json(JSON_KEY, {"id": 9}),
        b"10",
        None,
    ]
    found, bad = as_json(registry, *sent)
    row = {"id": 7, "at": "Köln"}
    assert found == [
        row, 2**53 + 1, 'a "quoted" key', {"id": 8, "at": "x"}, {"id": 9}, 10, None,
    ]  # fmt: skip
    assert bad == {}


def test_values_that_json_lacks_are_text(
    registry: SchemaRegistry, serializers: Serializers
) -> None:
    fields = [
        ("raw", {"type": "bytes"}, b"\xff"),
        ("day", {"type": "int", "logicalType": "date"}, 1),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}, 1),
        (
            "price",
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            Decimal("1.50"),
        ),
    ]
    schema = {"type": "record", "name": "Odd",
              "fields": [{"name": name, "type": type_} for name, type_, _ in fields]}  # fmt: skip
    row = {name: value for name, _, value in fields}
    (found,), bad = as_json(registry, serializers.avro(schema, row))
    assert bad == {}
    assert found == {
        "raw": "/w==", "day": "1970-01-02", "at": "1970-01-01T00:00:00.001000+00:00",
        "price": "1.50",
    }  # fmt: skip


def test_without_a_registry_framed_keys_are_json(serializers: Serializers) -> None:
    found, bad = as_json(None, serializers.json(JSON_KEY, {"id": 9}), b'{"id": 1}')
    assert (found, bad) == ([{"id": 9}, {"id": 1}], {})


def test_keys_that_cannot_be_decoded_are_bad(
    registry: SchemaRegistry, serializers: Serializers
) -> None:
    sent = serializers.avro(KEY, {"id": 7, "at": "x"})
    cut = sent._replace(value=sent.value[:-1])
    recursive = registry.register("odd", {"schema": '{"type": "array", "items": "null"}'})
    no_schema = registry.register("broken", {"schema": "{"})
    found, bad = as_json(
        registry,
        cut,
        b"\0\0\0\0\x63\2",
        b"\0" + recursive.id.to_bytes(4, "big") + b"\0",
        b"\0" + no_schema.id.to_bytes(4, "big") + b"\0",
        Sent(b"x", [("__key_schema_id", b"junk")]),
        Sent(b"1", [("__value_schema_id", b"junk")]),
    )
    assert found == [None] * 5 + [1]
    assert bad.keys() == set(range(5))
    assert bad[0].startswith("not such an Avro record: ")
    assert bad[1] == "schema id 99: the registry has no such schema"
    assert bad[4].startswith("header __key_schema_id: no Confluent header")


def test_a_registry_that_does_not_answer_makes_no_key_bad(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_client, "_PAUSES_S", ())
    registry.script = lambda _path: Answer(503, {})
    with pytest.raises(RegistryUnavailable):
        as_json(registry, b"\0\0\0\0\1\2")
