"""The landing, from a running broker through a real Spark into real tables."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.net.cluster import Cluster
from sawlog.pipeline.landing.configuration.pipeline_config import DELTA, TABLE_FORMATS
from sawlog.pipeline.landing.driver.landed_tables import open_table
from support.pipeline.landing import (
    create_topic,
    land,
    pipeline_of,
    records_of,
    rows_of,
    run_once,
    send,
    values_in,
)
from support.server.broker_process import SawlogServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_a_raw_table_equals_its_topic_after_repeated_runs(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path, table_format: str
) -> None:
    create_topic(broker.bootstrap, topic, 3)
    send(broker.bootstrap, topic, [b"a", None, b"", b"d\n", b"e" * 1000])
    group = f"g-{topic}"
    pipeline = pipeline_of(
        tmp_path,
        broker.bootstrap,
        f"  t: {{topic: {topic}, group: {group}, commit: {{rows: 3}},"
        f" table_format: {table_format}}}\n",
    )
    table = pipeline.landed[0]
    assert len(land(spark, pipeline).batches) == 2
    assert values_in(table.path) == records_of(broker.bootstrap, topic)
    assert land(spark, pipeline).batches == []
    send(broker.bootstrap, topic, [b"f", b"g", b"h", b"i"])
    land(spark, pipeline)
    assert values_in(table.path) == records_of(broker.bootstrap, topic)
    with Cluster(broker.bootstrap) as cluster:
        committed, _ = GroupAdmin(cluster).committed_offsets([group])
    assert {partition: told.offset for partition, told in committed[group].items()} == open_table(
        table
    ).offsets(group)


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_json_lands_with_schema_evolution_and_malformed_values_become_dead_letters(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path, table_format: str
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    broken = [b'{"id": ', b"[1]", b""]
    send(broker.bootstrap, topic, [{"id": 1, "name": "a"}, *broken, None, {"id": 2}])
    pipeline = pipeline_of(
        tmp_path,
        broker.bootstrap,
        f"  t: {{topic: {topic}, format: json, partition_by: [date(timestamp)],"
        f" table_format: {table_format}}}\n",
    )
    table = pipeline.landed[0]
    land(spark, pipeline)
    send(broker.bootstrap, topic, [{"id": "three"}, {"id": 4, "more": 1.5, "timestamp_date": "x"}])
    send(broker.bootstrap, topic, [{"id": 5.5}])  # the column becomes double, except in Iceberg
    widens = table_format == DELTA
    land(spark, pipeline)
    rows = {(row["id"], row["name"], row["more"]) for row in rows_of(table.path)}
    assert rows == {
        (1.0, "a", None), (None, None, None), (2.0, None, None), (4.0, None, 1.5),
        *([(5.5, None, None)] if widens else []),
    }  # fmt: skip
    assert [row["value_timestamp_date"] for row in rows_of(table.path) if row["id"] == 4] == ["x"]
    dead = rows_of(table.dead_path)
    stays = [] if widens else [b'{"id": 5.5}']
    assert sorted(row["value"] for row in dead) == sorted([*broken, *stays, b'{"id": "three"}'])
    reasons = {row["value"]: row["error"] for row in dead}
    kind = "double" if widens else "bigint"
    assert reasons[b'{"id": "three"}'] == f'field id: expected {kind}, found the string "three"'
    places = [(row["partition"], row["offset"]) for row in [*rows_of(table.path), *dead]]
    assert sorted(places) == [place for place, _ in records_of(broker.bootstrap, topic)]


def test_a_run_stops_a_table_whose_dead_letters_were_deleted(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [{"id": 1}, b"{broken"])
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, format: json}}\n")
    land(spark, pipeline)
    shutil.rmtree(pipeline.landed[0].dead_path)
    outcomes, events = run_once(spark, pipeline)
    assert [outcome.failure is not None for outcome in outcomes] == [True]
    (line,) = events.lines
    assert line.startswith("t: stopped: ")
    assert f"with it 1 dead letter (1 of {topic}-0 from offset 1 on)" in line


def test_a_table_that_cannot_land_is_reported_and_the_others_continue(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [json.dumps({"id": 1}).encode()])
    tables = (
        f"  good: {{topic: {topic}, format: json}}\n"
        f"  missing: {{topic: {topic}-missing}}\n"
        f"  wrong: {{topic: {topic}, format: avro, schema: gone.avsc}}\n"
    )
    schema = tmp_path / "gone.avsc"
    schema.write_text('{"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}')
    pipeline = pipeline_of(tmp_path, broker.bootstrap, tables)
    schema.unlink()  # after the file was read and checked
    outcomes, events = run_once(spark, pipeline)
    failures = {outcome.name: outcome.failure for outcome in outcomes}
    assert failures["good"] is None
    assert failures["missing"] is not None
    assert f"there is no topic '{topic}-missing'" in failures["missing"].message
    assert failures["wrong"] is not None
    assert "gone.avsc: No such file or directory" in failures["wrong"].message
    assert any(line.startswith("missing: stopped: ") for line in events.lines)
