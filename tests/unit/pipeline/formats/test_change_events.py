"""Debezium's change events with schemas of a registry: what they do, and their rows."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from sawlog.pipeline.formats import Format, parser, parser_input
from sawlog.pipeline.formats.debezium import DebeziumEnvelope
from sawlog.pipeline.formats.schema_inference import ddl
from sawlog.pipeline.registry.registry_url import registry_url
from support.pipeline.confluent_values import Sent, Serializers, record_batch
from support.pipeline.debezium_values import Event, envelope_schema, optional
from support.pipeline.formats import Outcome, outcome_of
from support.pipeline.schema_registry import SchemaRegistry, running_registry

POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
FIELDS = [
    {"name": "place", "type": POINT},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "timestamp", "type": "long"},
    {"name": "other", **optional("Point")},
]
ROW = {"place": {"x": 1}, "day": 20_000, "timestamp": 7, "other": {"x": 2}}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as running:
        yield running


def sent(registry: SchemaRegistry, schema: Any, *events: Mapping[str, Any]) -> list[Sent]:
    with Serializers(registry.url) as values:
        return [values.avro(schema, event) for event in events]


def format_of(registry: SchemaRegistry) -> Format:
    url = registry_url([registry.url], {}, {})
    return Format("avro", {}, url, envelope="debezium")


def rows(registry: SchemaRegistry, *values: Sent) -> Outcome:
    format_ = format_of(registry)
    parse = parser(format_, None, infer=True)
    return outcome_of(parse(parser_input(format_, record_batch(*values))), len(values))


def test_keys_are_json_and_rows_have_the_types_of_their_schema(registry: SchemaRegistry) -> None:
    events = [Event("u", {**ROW, "timestamp": 6}, ROW), Event("d", ROW), Event("t")]
    values = sent(registry, envelope_schema(FIELDS), *(event.envelope for event in events))
    envelope = DebeziumEnvelope(format_of(registry), ["day", "value_timestamp"])
    found = envelope.unwrap(record_batch(*values))
    assert found.op.to_pylist() == ["u", "d", "t"]
    key = '{"day": "2024-10-04", "value_timestamp": 7}'
    assert found.before.to_pylist() == [key.replace(" 7", " 6"), key, None]
    assert found.after.to_pylist() == [key, None, None]
    outcome = rows(registry, *values)
    assert ddl(outcome.schema) == (
        "place struct<x:int>, day date, value_timestamp bigint, other struct<x:int>"
    )
    assert [row["other"] for row in outcome.rows] == [{"x": 2}]
    assert outcome.bad == dict.fromkeys(
        (1, 2), "not a change event of Debezium: no row in its field after (schema id 1)"
    )


def test_a_key_that_the_schema_lacks_is_empty(registry: SchemaRegistry) -> None:
    values = sent(registry, envelope_schema(FIELDS), Event("c", None, ROW).envelope)
    found = DebeziumEnvelope(format_of(registry), ["id"]).unwrap(record_batch(*values))
    assert (found.before.to_pylist(), found.after.to_pylist()) == ([None], ["{}"])


@pytest.mark.parametrize(
    ("fields", "event", "reason"),
    [
        ([{"name": "id", "type": "int"}], {"id": 1}, "no field op"),
        ([{"name": "op", "type": "string"}], {"op": "m"}, "no record in its field after"),
        (
            [{"name": "op", "type": "string"}, {"name": "after", **optional("string")}],
            {"op": "c", "after": "x"},
            "no record in its field after",
        ),
    ],
)
def test_other_records_are_bad(
    registry: SchemaRegistry, fields: Any, event: Mapping[str, Any], reason: str
) -> None:
    values = sent(registry, {"type": "record", "name": "Other", "fields": fields}, event)
    told = f"schema id 1: not a change event of Debezium: {reason}"
    bad = DebeziumEnvelope(format_of(registry), ["id"]).unwrap(record_batch(*values)).bad
    assert [row.reason for row in bad] == [told]
    assert rows(registry, *values).bad == {0: told}
