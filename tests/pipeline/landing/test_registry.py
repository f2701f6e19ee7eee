"""Tables of values whose schemas are in a registry: new versions, and a registry that is away."""

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sawlog.cli.commands import run
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.producer import Producer
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.formats.schema_inference import ddl
from sawlog.pipeline.landing.configuration.pipeline_file import read_pipeline
from sawlog.pipeline.landing.failures import FailureKind, classify
from sawlog.pipeline.landing.task.landing_task import landing_parameters, read_parameters
from sawlog.pipeline.registry import registry_client
from sawlog.pipeline.registry.registry_client import RegistryUnavailable
from support.pipeline.confluent_values import Sent, Serializers
from support.pipeline.drivers import driving, version_of
from support.pipeline.landing import (
    create_topic,
    land_here,
    pipeline_file,
    pipeline_of,
    rows_of,
    values_in,
)
from support.pipeline.protobuf_messages import field, message, message_class, proto_file
from support.pipeline.schema_registry import Answer, SchemaRegistry, running_registry
from support.process import wait_until
from support.programs import require_java
from support.server.broker_process import SawlogServer, running_sawlog

DOWN = Answer(503, {"error_code": 50301, "message": "down"})
TOKEN = "word-of-the-registry"
V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": ["null", "string"]}]}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as running:
        yield running


def send_all(bootstrap: str, topic: str, sent: list[Sent | bytes]) -> None:
    with Cluster(bootstrap) as cluster, Producer(cluster) as producer:
        for one in sent:
            value, headers = one if isinstance(one, Sent) else (one, [])
            producer.send(topic, value, headers=headers, partition=0)


def columns_of(path: str) -> str:
    """The columns after those of the record."""
    return ddl(Table.open(path).schema).partition("key binary")[2].lstrip(", ")


def landed_rows(path: str, *names: str) -> list[Any]:
    rows = sorted(rows_of(path), key=lambda row: int(row["offset"]))
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize("in_header", [False, True], ids=["framed", "in-header"])
def test_new_versions_of_schemas_add_columns(
    broker: SawlogServer, topic: str, tmp_path: Path, registry: SchemaRegistry, in_header: bool
) -> None:
    tables = "".join(
        f"  {kind}: {{topic: {topic}-{kind}, format: {kind}, schema: registry,"
        f" registry: '{registry.url}'}}\n"
        for kind in ("avro", "protobuf", "json")
    )
    pipeline = pipeline_of(tmp_path, broker.bootstrap, tables)
    click = [
        proto_file("c.proto", "shop", message("Click", field("id", 1, "int32"), *more))
        for more in ((), (field("note", 2, "string"),))
    ]
    old, new = (message_class("shop.Click", file) for file in click)
    whole = {"title": "O", "type": "object", "properties": {"id": {"type": "integer"}}}
    wider = {**whole, "properties": {**whole["properties"], "note": {"type": "string"}}}
    with Serializers(registry.url, in_header=in_header) as made:
        batches: dict[str, list[list[Sent | bytes]]] = {
            "avro": [[made.avro(V1, {"id": 1}), b"junk"],
                     [made.avro(V1, {"id": 2}), made.avro(V2, {"id": 3, "note": "x"})]],
            "protobuf": [[made.protobuf(old(id=1)), b"junk"],
                         [made.protobuf(old(id=2)), made.protobuf(new(id=3, note="x"))]],
            "json": [[made.json(whole, {"id": 1}), b"junk"],
                     [made.json(whole, {"id": 2}), made.json(wider, {"id": 3, "note": "x"})]],
        }  # fmt: skip
    for kind in batches:
        create_topic(broker.bootstrap, f"{topic}-{kind}", 1)
    for number, columns in enumerate(("id", "id,note")):
        for kind, parts in batches.items():
            send_all(broker.bootstrap, f"{topic}-{kind}", parts[number])
        land_here(pipeline)
        for table in pipeline.landed:
            integer = "bigint" if table.format == "json" else "int"
            expected = {"id": f"id {integer}", "id,note": f"id {integer}, note string"}[columns]
            assert columns_of(table.path) == expected
    for table in pipeline.landed:
        assert landed_rows(table.path, "id", "note") == [(1, None), (2, None), (3, "x")]
        assert values_in(table.dead_path) == [((0, 1), b"junk")]


def test_a_registry_that_does_not_answer_leaves_the_table_as_it_is(
    broker: SawlogServer, topic: str, tmp_path: Path, registry: SchemaRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(registry_client, "_PAUSES_S", ())
    create_topic(broker.bootstrap, topic, 1)
    with Serializers(registry.url) as made:
        send_all(broker.bootstrap, topic, [made.avro(V1, {"id": 1}), b"\0\0\0\0\x63\2"])
    tables = f"  t: {{topic: {topic}, format: avro, registry: '{registry.url}'}}\n"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, tables)
    (table,) = pipeline.landed
    registry.script = lambda _path: DOWN
    with pytest.raises(RegistryUnavailable) as failed:
        land_here(pipeline)
    assert classify(failed.value).kind is FailureKind.REGISTRY_UNREACHABLE
    assert Table.open(table.path).version == 0
    assert rows_of(table.dead_path) == []
    registry.script = lambda _path: None
    land_here(pipeline)
    assert landed_rows(table.path, "id") == [(1,)]
    (dead,) = rows_of(table.dead_path)
    assert dead["error"] == "schema id 99: the registry has no such schema"


def test_check_asks_the_registry(
    broker: SawlogServer, topic: str, tmp_path: Path, registry: SchemaRegistry,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(registry_client, "_PAUSES_S", ())
    create_topic(broker.bootstrap, topic, 1)
    tables = f"  t: {{topic: {topic}, format: avro}}\nregistry: '{registry.url}'\n"
    file = pipeline_file(
        tmp_path, broker.bootstrap, tables, f"registry_options: {{token: {TOKEN}}}\n"
    )
    registry.required_authorization = f"Bearer {TOKEN}"
    assert run(["pipeline", "check", str(file)]) == 0
    registry.required_authorization = "another"
    assert run(["pipeline", "check", str(file)]) == 1
    registry.script = lambda _path: DOWN
    registry.required_authorization = None
    assert run(["pipeline", "check", str(file)]) == 1
    shown = "".join(capsys.readouterr())
    assert "HTTP status 401: check user and password, or token" in shown
    assert "does not answer: HTTP status 503" in shown
    assert TOKEN not in shown


def test_parameters_of_tasks_show_no_credentials(tmp_path: Path) -> None:
    tables = (
        "  t: {topic: a, format: avro, registry: 'http://r',"
        f" registry_options: {{token: {TOKEN}}}}}\n"
    )
    pipeline = pipeline_of(tmp_path, "b:1", tables)
    parameters = landing_parameters(pipeline, pipeline.landed[0], {"t": bytes(16)})
    assert TOKEN not in f"{pipeline!r} {parameters!r} {parameters.to_json()}"
    assert json.loads(parameters.to_json())["format"]["registry"] == "http://r"
    copy = pickle.loads(pickle.dumps(parameters))
    assert copy.format.registry.options["token"] == TOKEN


def test_the_registry_of_keys_reaches_tasks_with_its_credentials(tmp_path: Path) -> None:
    tables = (
        "  t: {topic: a, format: json, mode: upsert, key: id, registry: 'http://r',"
        f" registry_options: {{token: {TOKEN}}}}}\n"
    )
    pipeline = pipeline_of(tmp_path, "b:1", tables)
    table = pipeline.landed[0]
    text = landing_parameters(pipeline, table, {"t": bytes(16)}).to_json()
    assert TOKEN not in text
    assert table.registry is not None
    found = read_parameters(text, registry_options=table.registry.options).format
    assert found.registry is None
    assert found.key_registry is not None
    assert found.key_registry.options["token"] == TOKEN


@pytest.mark.long
@pytest.mark.spark
def test_a_schema_evolves_and_the_registry_goes_away_during_a_run(
    tmp_path: Path, registry: SchemaRegistry
) -> None:
    require_java()
    events = tmp_path / "events"
    events.mkdir()
    more = (
        f"registry: {registry.url}\nregistry_options: {{token: {TOKEN}}}\n"
        "spark:\n  spark.eventLog.enabled: true\n  spark.eventLog.compress: false\n"
        f"  spark.eventLog.dir: file://{events}\n"
    )
    tables = "  t: {topic: t, format: avro, commit: {every: 100ms}}\n"
    with running_sawlog(tmp_path / "broker") as server, Serializers(registry.url, "t") as made:
        create_topic(server.bootstrap, "t", 1)
        file = pipeline_file(tmp_path, server.bootstrap, tables, more)
        (table,) = read_pipeline(str(file)).landed
        sent = [made.avro(V1, {"id": 1}), made.avro(V2, {"id": 2, "note": "x"})]
        registry.required_authorization = f"Bearer {TOKEN}"
        with driving(file, "--verbose") as driver:
            send_all(server.bootstrap, "t", [sent[0]])
            wait_until(lambda: version_of(table.path) > 0 and len(rows_of(table.path)) == 1, driver)
            registry.script = lambda _path: DOWN
            send_all(server.bootstrap, "t", [sent[1]])
            driver.wait_for_line("does not answer: HTTP status 503; waiting for it")
            registry.script = lambda _path: None
            wait_until(lambda: len(rows_of(table.path)) == 2, driver)
            assert driver.terminate() == 0, driver.output
    assert landed_rows(table.path, "id", "note") == [(1, None), (2, "x")]
    assert rows_of(table.dead_path) == []
    logs = [one.read_text(errors="replace") for one in events.rglob("*") if one.is_file()]
    assert logs
    assert all(TOKEN not in text for text in (driver.output, *logs))
