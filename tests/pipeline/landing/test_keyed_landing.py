"""Keyed tables filled by Spark, on a directory and an object store, read by every reader."""

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

from sawlog.pipeline.delta import read
from sawlog.pipeline.delta.table import Table
from support.pipeline.drivers import driving, run_to_the_end, uncommitted, version_of
from support.pipeline.keyed_topics import (
    assert_table_is_the_replay,
    changes,
    keyed_load,
    send_keyed,
)
from support.pipeline.landing import create_topic, land, pipeline_file, pipeline_of, run_once
from support.process import wait_until
from support.programs import require_java
from support.server.broker_process import SawlogServer, running_sawlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "changes"
TABLE = (
    "  t: {{topic: {topic}, format: json, mode: upsert, key: id, delete_when: \"op = 'd'\","
    " commit: {{rows: {rows}, every: 200ms}}}}\n"
)


@pytest.mark.parametrize("place", ["directory", "store"])
def test_every_reader_reads_the_last_row_of_each_key(
    spark: "SparkSession",
    broker: SawlogServer,
    topic: str,
    tmp_path: Path,
    place: str,
    request: pytest.FixtureRequest,
) -> None:
    lake = request.getfixturevalue("moto").new_path("lake") if place == "store" else None
    create_topic(broker.bootstrap, topic, 3)
    tables = TABLE.format(topic=topic, rows=400)
    pipeline = pipeline_of(tmp_path, broker.bootstrap, tables, lake)
    path = pipeline.landed[0].path
    for first in (0, 300):
        for partition in range(3):
            records = changes(300, first, partition)
            send_keyed(broker.bootstrap, topic, records, partition)
        assert land(spark, pipeline).batches
        assert_table_is_the_replay(broker.bootstrap, topic, path)
    assert uncommitted(path) == set()
    table = Table.open(path)
    options = table.storage.delta_options()
    stored = DeltaTable(str(path), storage_options=None if options is None else dict(options))
    expected = sorted(stored.to_pyarrow_table()["id"].to_pylist())
    assert len(expected) == len(set(expected)) == table.detail().rows
    assert sorted(pl.read_delta(stored)["id"].to_list()) == expected
    dataset = stored.to_pyarrow_dataset()  # noqa: F841
    assert [row[0] for row in duckdb.sql("SELECT id FROM dataset ORDER BY id").fetchall()] == (
        expected
    )
    assert sorted(row["id"] for row in read(spark, path).collect()) == expected


def test_a_key_in_two_partitions_is_reported_by_the_run(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    for partition in range(2):
        send_keyed(broker.bootstrap, topic, [(1, {"id": 1})], partition)
    pipeline = pipeline_of(tmp_path, broker.bootstrap, TABLE.format(topic=topic, rows=10))
    _, events = run_once(spark, pipeline)
    (line,) = events.lines
    assert line.startswith("t: stopped: the key id=1 is in two partitions: ")
    assert f"{topic}-0 at offset 0 and {topic}-1 at offset 0" in line


@pytest.mark.long
@pytest.mark.spark
def test_two_drivers_and_one_killed_before_its_commit_leave_the_replay(tmp_path: Path) -> None:
    require_java()
    with running_sawlog(tmp_path / "broker") as server:
        create_topic(server.bootstrap, TOPIC, 3)
        file = pipeline_file(tmp_path, server.bootstrap, TABLE.format(topic=TOPIC, rows=3000))
        path = f"{tmp_path}/lake/t"
        with driving(file) as one, driving(file) as other, keyed_load(server.bootstrap, TOPIC):
            wait_until(lambda: version_of(path) >= 8, one, other)
            conflict = "restarting from the offsets in the table"
            wait_until(lambda: conflict in one.output + other.output, one, other)
            wait_until(lambda: bool(uncommitted(path)), one, other)
            one.kill()
            version = version_of(path)
            wait_until(lambda: version_of(path) > version + 2, other)
            assert other.terminate() == 0, other.output
        run_to_the_end(file)
        assert_table_is_the_replay(server.bootstrap, TOPIC, path)
