"""Keyed tables of Debezium's events whose schemas are in a registry; a broker, without Spark."""

import datetime as dt
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.formats.schema_inference import ddl
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from sawlog.pipeline.landing.failures import LandingFailure
from support.pipeline.confluent_values import Sent, Serializers
from support.pipeline.debezium_values import Event, Row, envelope_schema, optional
from support.pipeline.keyed_topics import send_framed
from support.pipeline.landing import create_topic, land_here, pipeline_of, rows_of
from support.pipeline.protobuf_messages import field, message, message_class, oneofs, proto_file
from support.pipeline.protobuf_messages import optional as optional_field
from support.pipeline.schema_registry import SchemaRegistry, running_registry
from support.server.broker_process import SawlogServer

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
AT = {"type": "long", "logicalType": "timestamp-millis"}
STATE = {"type": "enum", "name": "State", "symbols": ["open", "paid"]}
FIELDS_1 = [
    {"name": "id", "type": "int"},
    {"name": "state", **optional(STATE)},
    {"name": "price", **optional(PRICE)},
]
FIELDS_2 = [
    {"name": "at", **optional(AT)},  # a new column, and a wider number
    {"name": "id", "type": "long"},
    {"name": "price", **optional(PRICE)},
    {"name": "state", **optional(STATE)},
    {"name": "old_state", **optional("State")},
]
SCHEMAS = [envelope_schema(FIELDS_1), envelope_schema(FIELDS_2)]
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
MOMENT = dt.datetime(2026, 3, 1, 12, 30, tzinfo=dt.UTC)
NULLS = {"state": None, "price": None, "at": None, "old_state": None}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as running:
        yield running


class Source:
    """A table of a database, and the events of its changes."""

    def __init__(self, values: Serializers, keys: Serializers) -> None:
        self.rows: dict[int, Row] = {}
        self.values = values
        self.keys = keys

    def record(self, number: int, event: Event, version: int) -> tuple[Sent, Sent | None]:
        """The record of an event."""
        schema = SCHEMAS[version]
        value = None if event.op is None else self.values.avro(schema, event.envelope)
        return self.keys.avro(KEY, {"id": number}), value

    def change(self, choice: random.Random, version: int) -> list[tuple[Sent, Sent | None]]:
        """The records of a random change of a random row."""
        number = choice.randrange(12)
        before = self.rows.get(number)
        if before is None:
            row = self._row(number, choice, version)
            self.rows[number] = row
            return [self.record(number, Event(choice.choice("cr"), None, row), version)]
        if choice.random() < 0.5:
            row = self._row(number, choice, version)
            self.rows[number] = row
            known = before if choice.random() < 0.5 else None  # as REPLICA IDENTITY says
            return [self.record(number, Event("u", known, row), version)]
        del self.rows[number]
        known = before if choice.random() < 0.5 else None
        deletes = [self.record(number, Event("d", known, None), version)]
        tombstone = self.record(number, Event(None), version)
        return choice.choice([[tombstone], deletes, [*deletes, tombstone]])

    def _row(self, number: int, choice: random.Random, version: int) -> Row:
        row: dict[str, Any] = {
            "id": number,
            "state": choice.choice([None, "open", "paid"]),
            "price": choice.choice([None, Decimal(choice.randrange(10_000)) / 100]),
        }
        if version:
            row["at"] = choice.choice([None, MOMENT + dt.timedelta(choice.randrange(9))])
            row["old_state"] = choice.choice([None, "open"])
        return row


@contextmanager
def source_of(registry: SchemaRegistry, topic: str, *, in_header: bool = False) -> Iterator[Source]:
    with (
        Serializers(registry.url, topic, in_header=in_header) as values,
        Serializers(registry.url, topic, in_header=in_header, is_key=True) as keys,
    ):
        yield Source(values, keys)


@pytest.fixture
def source(registry: SchemaRegistry, topic: str) -> Iterator[Source]:
    with source_of(registry, topic) as found:
        yield found


def debezium_pipeline(
    path: Path, bootstrap: str, topic: str, registry: SchemaRegistry, more: str = "format: avro"
) -> PipelineConfig:
    table = (
        f"  t: {{topic: {topic}, mode: upsert, key: id, envelope: debezium,"
        f" registry: '{registry.url}', commit: {{rows: 40}}, {more}}}\n"
    )
    return pipeline_of(path, bootstrap, table)


def landed_rows(pipeline: PipelineConfig) -> dict[int, Row]:
    land_here(pipeline)
    rows = rows_of(pipeline.landed[0].path)
    names = ("id", *NULLS)
    found = {row["id"]: {name: row[name] for name in names if name in row} for row in rows}
    assert len(found) == len(rows), "a key has two rows"
    return found


def dead_letters(pipeline: PipelineConfig) -> dict[int, str]:
    return {row["offset"]: row["error"] for row in rows_of(pipeline.landed[0].dead_path)}


@pytest.mark.parametrize("in_header", [False, True], ids=["framed", "in-header"])
def test_the_table_is_that_of_the_database_while_its_schema_changes(
    broker: SawlogServer, topic: str, tmp_path: Path, registry: SchemaRegistry, in_header: bool
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = debezium_pipeline(tmp_path, broker.bootstrap, topic, registry)
    choice = random.Random(7)
    with source_of(registry, topic, in_header=in_header) as source:
        for versions in ([0], [0, 1], [1]):
            records = [
                record
                for number in range(150)
                for record in source.change(choice, versions[number * len(versions) // 150])
            ]
            send_framed(broker.bootstrap, topic, records)
            expected = {
                number: (NULLS if 1 in versions else {}) | dict(row)
                for number, row in source.rows.items()
            }
            assert landed_rows(pipeline) == expected
    assert dead_letters(pipeline) == {}
    assert ddl(Table.open(pipeline.landed[0].path).schema).endswith(
        "id int, state string, price decimal(9,2), at timestamp, old_state string"
    )


def test_events_without_a_row_or_a_key_are_dead_letters(
    broker: SawlogServer, topic: str, tmp_path: Path, registry: SchemaRegistry, source: Source
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    row = {"id": 1, "state": "open", "price": None}
    other = {"type": "record", "name": "Other", "fields": [{"name": "id", "type": "int"}]}
    _, delete = source.record(1, Event("d", None, None), 0)
    good = source.record(1, Event("c", None, row), 0)
    assert good[1] is not None
    send_framed(
        broker.bootstrap,
        topic,
        [
            good,
            source.record(1, Event("u", row, None), 0),
            source.record(1, Event("m", None, None), 0),
            (None, source.values.avro(other, {"id": 1})),
            (None, Sent(good[1].value[:-3], [])),
            (None, delete),
            (None, Sent(b"plain", [])),
        ],
    )
    pipeline = debezium_pipeline(tmp_path, broker.bootstrap, topic, registry)
    assert landed_rows(pipeline) == {1: row}
    found = dead_letters(pipeline)
    told = "not a change event of Debezium: "
    assert found[1] == f"{told}op 'u' without a row"
    assert found[2] == f"{told}op 'm' without a row"
    assert found[3] == f"schema id 3: {told}no field op"
    assert found[4].startswith("not such an Avro record: EOF")
    assert found[5] == "a delete whose key does not give id: no value"
    assert found[6].startswith("no Confluent header")
    assert sorted(found) == [1, 2, 3, 4, 5, 6]


def test_a_truncation_stops_the_table(
    broker: SawlogServer, topic: str, tmp_path: Path, registry: SchemaRegistry, source: Source
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    row = {"id": 1, "state": None, "price": None}
    records = [source.record(1, Event("c", None, row), 0), source.record(1, Event("t"), 0)]
    send_framed(broker.bootstrap, topic, records)
    with pytest.raises(LandingFailure) as failure:
        land_here(debezium_pipeline(tmp_path, broker.bootstrap, topic, registry))
    assert f"{topic}-0 has a TRUNCATE at offset 1" in failure.value.message


def protobuf_envelope() -> Any:
    """The class of messages with the form of Connect's ProtobufConverter."""
    row = message(
        "Value", field("id", 1, "int32"), optional_field("state", 2, "string", 0),
        oneof_decl=oneofs("_state"),
    )  # fmt: skip
    envelope = message(
        "Envelope", field("before", 1, ".shop.Envelope.Value"),
        field("after", 2, ".shop.Envelope.Value"), field("op", 3, "string"), nested_type=[row],
    )  # fmt: skip
    return message_class("shop.Envelope", proto_file("orders.proto", "shop", envelope))


@pytest.mark.parametrize("format_name", ["protobuf", "json"])
def test_events_may_be_protobuf_or_framed_json(
    broker: SawlogServer,
    topic: str,
    tmp_path: Path,
    registry: SchemaRegistry,
    source: Source,
    format_name: str,
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    kind = protobuf_envelope()

    def record(op: str, before: Row | None, after: Row | None) -> tuple[Sent, Sent]:
        number = (after or before or {})["id"]
        if format_name == "json":
            value = {"before": before, "after": after, "op": op}
            sent = source.values.json({"title": "Envelope", "type": "object"}, value)
        else:
            sent = source.values.protobuf(kind(op=op, before=before, after=after))
        return source.keys.json({"title": "Key", "type": "object"}, {"id": number}), sent

    rows = [{"id": number, "state": "open"} for number in range(4)]
    key, delete = record("d", {"id": 2}, None)
    send_framed(
        broker.bootstrap,
        topic,
        [record("c", None, row) for row in rows]
        + [
            record("u", rows[1], {"id": 1, "state": "paid"}),
            (None, delete),
            (record("d", {"id": 3}, None)[0], None),
            (key, Sent(b"plain", [])),
        ],
    )
    more = f"format: {format_name}"
    if format_name == "json":
        more += ", options: {encoding: confluent}"
    pipeline = debezium_pipeline(tmp_path, broker.bootstrap, topic, registry, more)
    assert landed_rows(pipeline) == {0: rows[0], 1: {"id": 1, "state": "paid"}}
    assert list(dead_letters(pipeline)) == [7]


def test_an_update_to_another_key_takes_the_old_row_away(
    broker: SawlogServer, topic: str, tmp_path: Path, registry: SchemaRegistry, source: Source
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    old: Row = {"id": 1, "state": "open", "price": Decimal("1.00")}
    moved, changed = {**old, "id": 2}, {**old, "id": 3, "state": "paid"}
    pipeline = debezium_pipeline(tmp_path, broker.bootstrap, topic, registry)
    events = [Event("c", None, old), Event("u", old, moved), Event("c", None, {**old, "id": 3}),
              Event("u", {**old, "id": 3}, changed)]  # fmt: skip
    send_framed(broker.bootstrap, topic, [source.record(7, event, 0) for event in events])
    assert landed_rows(pipeline) == {2: moved, 3: changed}
    assert dead_letters(pipeline) == {}


def test_events_in_plain_json_may_have_keys_with_schemas(
    broker: SawlogServer, topic: str, tmp_path: Path, registry: SchemaRegistry, source: Source
) -> None:
    """A connector with other converters for keys than for values."""
    create_topic(broker.bootstrap, topic, 1)
    pipeline = debezium_pipeline(tmp_path, broker.bootstrap, topic, registry, "format: json")

    def key(number: int) -> Sent:
        return source.keys.avro(KEY, {"id": number})

    def value(event: Event) -> Sent:
        return Sent(json.dumps(event.envelope).encode(), [])

    creates = [(key(number), value(Event("c", None, {"id": number}))) for number in range(4)]
    deletes = [(key(0), None), (Sent(b'{"id": 1}', []), None), (key(2), value(Event("d")))]
    send_framed(broker.bootstrap, topic, [*creates, *deletes])
    assert landed_rows(pipeline).keys() == {3}
    send_framed(broker.bootstrap, topic, [(Sent(b"\0\0\0\0\x63\2", []), None), (key(3), None)])
    assert landed_rows(pipeline) == {}
    told = "a delete whose key does not give id: schema id 99: the registry has no such schema"
    assert dead_letters(pipeline) == {7: told}


def test_declared_columns_bind_the_rows(
    broker: SawlogServer, topic: str, tmp_path: Path, registry: SchemaRegistry, source: Source
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    row = {"id": 1, "state": "open", "price": Decimal("2.50")}
    send_framed(
        broker.bootstrap,
        topic,
        [source.record(n, Event("c", None, {**row, "id": n}), 0) for n in range(3)]
        + [source.record(2, Event("d", {**row, "id": 2}), 0), source.record(0, Event(None), 0)],
    )
    declared = "format: avro, schema: 'id BIGINT, price DECIMAL(12,3)'"
    pipeline = debezium_pipeline(tmp_path, broker.bootstrap, topic, registry, declared)
    land_here(pipeline)
    rows = rows_of(pipeline.landed[0].path)
    assert [(row["id"], row["price"]) for row in rows] == [(1, Decimal("2.500"))]
    assert "state" not in rows[0]
    assert dead_letters(pipeline) == {}
