"""A lake in an object store, filled by Spark tasks; credentials are shown nowhere."""

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sawlog.cli.commands import run
from sawlog.client.net.cluster import Cluster
from sawlog.pipeline.delta import read
from sawlog.pipeline.delta.table_path import StorageOptions, TablePath
from sawlog.pipeline.landing.configuration.pipeline_file import read_pipeline
from sawlog.pipeline.landing.driver.replay import resolve_replay_start, restore_to
from sawlog.pipeline.landing.task.landing_task import landing_parameters, read_parameters
from support.pipeline.drivers import driving, run_to_the_end, uncommitted, version_of
from support.pipeline.fault_proxy import UNAVAILABLE, FaultProxy, proxied
from support.pipeline.landing import (
    create_topic,
    land,
    land_here,
    pipeline_file,
    pipeline_of,
    records_of,
    rows_of,
    send,
)
from support.pipeline.landing_load import (
    TABLES,
    TOPIC,
    assert_tables_are_the_topic,
    load,
    values,
)
from support.pipeline.s3_servers import ACCESS_KEY, SECRET_KEY, S3Server, store_options
from support.process import wait_until
from support.programs import require
from support.server.broker_process import SawlogServer, running_sawlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIED = """\
  t: {{topic: {topic}, format: json, partition_by: [date(timestamp)]}}
  counts: {{sql: 'SELECT kind, count(*) AS n FROM t GROUP BY kind', key: [kind]}}
"""
CONFLICT = "restarting from the offsets in the table"


def test_a_landing_its_dead_letters_and_a_query(
    spark: "SparkSession", broker: SawlogServer, moto: S3Server, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    send(broker.bootstrap, topic, [{"id": 1, "kind": "a"}, b"{broken", {"id": 2, "kind": "b"}])
    tables = QUERIED.format(topic=topic)
    pipeline = pipeline_of(tmp_path, broker.bootstrap, tables, moto.new_path("lake"))
    land(spark, pipeline)
    send(broker.bootstrap, topic, [{"id": 3, "kind": "a", "more": 1.5}])
    land(spark, pipeline)
    table, counts = pipeline.landed[0], pipeline.queries[0]
    rows = [(row["id"], row["kind"], row["more"]) for row in rows_of(table.path)]
    assert sorted(rows) == [(1, "a", None), (2, "b", None), (3, "a", 1.5)]
    assert [row["value"] for row in rows_of(table.dead_path)] == [b"{broken"]
    assert sorted((row["kind"], row["n"]) for row in rows_of(counts.path)) == [("a", 2), ("b", 1)]
    assert sorted(row["id"] for row in read(spark, table.path).collect()) == [1, 2, 3]
    places = [(row["partition"], row["offset"]) for row in rows_of(table.path)]
    dead = [(row["partition"], row["offset"]) for row in rows_of(table.dead_path)]
    assert sorted(places + dead) == [place for place, _ in records_of(broker.bootstrap, topic)]


def test_a_replay_lands_again_what_it_took_out(
    broker: SawlogServer, moto: S3Server, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    send(broker.bootstrap, topic, [{"id": n} if n % 3 else b"broken" for n in range(30)])
    tables = f"  t: {{topic: {topic}, format: json}}\n"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, tables, moto.new_path("lake"))
    land_here(pipeline)
    table = pipeline.landed[0]
    rows, dead = rows_of(table.path), rows_of(table.dead_path)
    with Cluster(broker.bootstrap) as cluster:
        restore_to(cluster, table, resolve_replay_start(cluster, table, {0: 5}))
    assert len(rows_of(table.path)) < len(rows)
    land_here(pipeline)

    def place(row: dict[str, int]) -> tuple[int, int]:
        return row["partition"], row["offset"]

    assert sorted(rows_of(table.path), key=place) == sorted(rows, key=place)
    assert sorted(rows_of(table.dead_path), key=place) == sorted(dead, key=place)


def test_check_and_status_tell_of_the_store_and_show_no_credentials(
    broker: SawlogServer,
    moto: S3Server,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    tables = f"  t: {{topic: {topic}}}\n"
    lake = moto.new_path("lake")
    file = pipeline_file(tmp_path, broker.bootstrap, tables, lake=lake)
    assert run(["pipeline", "check", str(file)]) == 0
    assert "t: will be created from 1 partition" in capsys.readouterr().out
    land_here(read_pipeline(str(file)))
    assert run(["pipeline", "status", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["version"] == 0
    with proxied(moto.port) as proxy:
        behind = TablePath(lake, StorageOptions(store_options(proxy.port)))
        file = pipeline_file(tmp_path, broker.bootstrap, tables, lake=behind)
        proxy.script = lambda _method, _path: UNAVAILABLE
        assert run(["pipeline", "check", str(file)]) == 1
        assert run(["pipeline", "run", str(file)]) == 1
        out, err = capsys.readouterr()
        proxy.script = lambda _method, _path: None
        proxy.drops_conditions = True
        assert run(["pipeline", "run", str(file), "--once"]) == 1
        refused = capsys.readouterr().err
    assert f"the lake {lake} cannot be written to: " in out
    assert f"the lake {lake} cannot be written to: " in err
    assert "atomic conditional writes" in refused
    for shown in (out, err, refused):
        assert ACCESS_KEY not in shown
        assert SECRET_KEY not in shown


def test_parameters_of_tasks_show_no_credentials(moto: S3Server, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, "b:1", "  t: {topic: a}\n", moto.new_path("lake"))
    parameters = landing_parameters(pipeline, pipeline.landed[0], {"t": bytes(16)})
    assert SECRET_KEY not in f"{parameters!r} {parameters.to_json()}"
    copy = read_parameters(parameters.to_json(), pipeline.lake.options)
    assert copy.dead_path.options["secret_access_key"] == SECRET_KEY
    for pickled in (pickle.loads(pickle.dumps(parameters)), copy):
        assert pickled == parameters
        assert pickled.path.options == parameters.path.options


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SawlogServer]:
    require("java")
    with running_sawlog(tmp_path / "broker") as started:
        create_topic(started.bootstrap, TOPIC, 3)
        yield started


class Lake:
    """A pipeline file whose lake is behind a proxy, and what Spark writes about its runs."""

    def __init__(self, directory: Path, server: SawlogServer, store: S3Server, port: int) -> None:
        self.events = directory / "events"
        self.events.mkdir()
        options = StorageOptions(store_options(port))
        lake = TablePath(store.new_path("lake"), options)
        more = (
            "spark:\n  spark.eventLog.enabled: true\n  spark.eventLog.compress: false\n"
            f"  spark.eventLog.dir: file://{self.events}\n"
        )
        self.file = pipeline_file(directory, server.bootstrap, TABLES, more, lake)
        self.pipeline = read_pipeline(str(self.file))

    def assert_no_credentials(self, *outputs: str) -> None:
        logs = [file for file in self.events.rglob("*") if file.is_file()]
        assert logs
        for text in (*outputs, *(file.read_text(errors="replace") for file in logs)):
            assert SECRET_KEY not in text
            assert ACCESS_KEY not in text


@pytest.fixture
def proxy(versitygw: S3Server) -> Iterator[FaultProxy]:
    with proxied(versitygw.port) as found:
        yield found


@pytest.fixture
def lake(tmp_path: Path, server: SawlogServer, versitygw: S3Server, proxy: FaultProxy) -> Lake:
    return Lake(tmp_path, server, versitygw, proxy.port)


@pytest.mark.soak  # on an idle machine the file before its commit is too short-lived to be seen
@pytest.mark.spark
def test_a_driver_killed_before_its_commit_and_a_store_that_stops_answering(
    server: SawlogServer, lake: Lake, proxy: FaultProxy
) -> None:
    raw = lake.pipeline.landed[0]
    send(server.bootstrap, TOPIC, values(24_000))
    with driving(lake.file, "--verbose") as driver:
        wait_until(lambda: version_of(raw.path) > 1 and bool(uncommitted(raw.path)), driver)
        driver.kill()
        killed = driver.output
    with driving(lake.file, "--verbose") as driver:
        since = version_of(raw.path)
        wait_until(lambda: version_of(raw.path) > since, driver)
        proxy.script = lambda _method, _path: UNAVAILABLE
        driver.wait_for_line("waiting for the object store")
        proxy.script = lambda _method, _path: None
        since = version_of(raw.path)
        send(server.bootstrap, TOPIC, values(3_000, 24_000))
        wait_until(lambda: version_of(raw.path) > since, driver)
        assert driver.terminate() == 0, driver.output
        paused = driver.output
    once = run_to_the_end(lake.file)
    assert_tables_are_the_topic(server, lake.pipeline)
    lake.assert_no_credentials(killed, paused, once)


@pytest.mark.long
@pytest.mark.spark
def test_two_drivers_lose_and_duplicate_nothing(server: SawlogServer, lake: Lake) -> None:
    raw = lake.pipeline.landed[0]
    with driving(lake.file) as one, driving(lake.file) as other:
        with load(server.bootstrap):
            wait_until(lambda: version_of(raw.path) >= 3, one, other)
            wait_until(lambda: CONFLICT in one.output + other.output, one, other)
        assert one.terminate() == 0, one.output
        assert other.terminate() == 0, other.output
    run_to_the_end(lake.file)
    assert_tables_are_the_topic(server, lake.pipeline)
