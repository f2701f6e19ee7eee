"""Many tables in one file: they share workers, and neither a backlog nor a failure stops others."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sawlog.client.admin.admin import Admin, NewTopic
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.producer import Producer
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from sawlog.pipeline.landing.configuration.pipeline_file import read_pipeline
from support.pipeline.drivers import Driver, driving, run_to_the_end, version_of
from support.pipeline.landing import create_topic, pipeline_file, send, values_in
from support.process import wait_until
from support.programs import require_java
from support.server.broker_process import SawlogServer, running_sawlog

pytestmark = [pytest.mark.long, pytest.mark.spark]

TABLES, RECORDS = 30, 1_000
CORES = 2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SawlogServer]:
    require_java()
    with running_sawlog(tmp_path / "broker") as started:
        yield started


def pipeline_at(directory: Path, server: SawlogServer, tables: str) -> tuple[Path, PipelineConfig]:
    file = pipeline_file(directory, server.bootstrap, tables)
    return file, read_pipeline(str(file))


def rows_in(path: str) -> int:
    return Table.open(path).detail().rows if Table.exists(path) else 0


def fill(server: SawlogServer, topics: list[str], records: int, value: bytes = b"") -> None:
    with Cluster(server.bootstrap) as cluster:
        assert not Admin(cluster).create_topics([NewTopic(topic, 1) for topic in topics])
        with Producer(cluster) as producer:
            for topic in topics:
                for number in range(records):
                    producer.send(topic, value or b"%d" % number, partition=0)


def workers_of(driver: Driver) -> int:
    """The Python processes of Spark: a daemon, and the workers that it forks."""
    return len(driver.below("pyspark"))


def test_thirty_tables_share_the_workers_of_one_driver(
    server: SawlogServer, tmp_path: Path
) -> None:
    topics = [f"t{number}" for number in range(TABLES)]
    fill(server, topics, RECORDS)
    tables = "".join(f"  {topic}: {{topic: {topic}}}\n" for topic in topics)
    file, pipeline = pipeline_at(tmp_path, server, tables)
    most = 0
    with driving(file, "--once", "--master", f"local[{CORES},4]") as driver:
        while driver.is_running:
            most = max(most, workers_of(driver))
        assert driver.wait() == 0, driver.output
    # The JVM forks a shell for a moment before it becomes Python.
    assert 0 < most <= 2 + CORES, "one worker per core, and the daemon"
    values = [((0, number), b"%d" % number) for number in range(RECORDS)]
    for table in pipeline.landed:
        assert values_in(table.path) == values
        assert version_of(table.path) == 1
    assert "restart" not in driver.output
    assert "retrying" not in driver.output


def test_a_backlog_a_missing_topic_and_a_lost_one_do_not_stop_other_tables(
    server: SawlogServer, tmp_path: Path
) -> None:
    backlog = 600_000
    fill(server, ["large"], backlog, b"x" * 10)
    create_topic(server.bootstrap, "small", 1)
    create_topic(server.bootstrap, "lost", 1)
    send(server.bootstrap, "lost", [b"a"])
    bounds = "commit: {every: 100ms, rows: 30000}"
    tables = "".join(
        f"  {name}: {{topic: {name}, {bounds}}}\n" for name in ("large", "small", "lost", "later")
    )
    file, pipeline = pipeline_at(tmp_path, server, tables)
    large, small, lost, later = pipeline.landed
    with driving(file) as driver:
        driver.wait_for_line("later: there is no topic 'later'.*waiting for it")
        wait_until(lambda: rows_in(lost.path) == 1, driver)
        with Cluster(server.bootstrap) as cluster:
            assert not Admin(cluster).delete_topics(["lost"])
        for number in range(1, 4):
            send(server.bootstrap, "small", [b"a"])
            wait_until(lambda at=number: rows_in(small.path) == at, driver)  # type: ignore[misc]
        assert rows_in(large.path) < backlog, "small batches land between those of a backlog"
        driver.wait_for_line("lost: stopped: the topic 'lost' no longer exists")
        create_topic(server.bootstrap, "later", 1)
        send(server.bootstrap, "later", [b"a"])
        wait_until(lambda: rows_in(later.path) == 1, driver)
        wait_until(lambda: rows_in(large.path) == backlog, driver)
        assert driver.terminate() == 1, driver.output


def test_a_task_that_fails_fails_only_its_own_table(server: SawlogServer, tmp_path: Path) -> None:
    topics = [f"t{number}" for number in range(4)]
    fill(server, topics, 0)
    tables = "".join(
        f"  {topic}: {{topic: {topic}, format: json, partition_by: [date(timestamp)]}}\n"
        for topic in topics
    )
    file, pipeline = pipeline_at(tmp_path, server, tables)
    run_to_the_end(file)
    bad = Path(pipeline.landed[1].path)
    for days in range(2):  # a file in the place of the directory of today's rows
        date = datetime.now(UTC).date() + timedelta(days=days)
        (bad / f"timestamp_date={date}").write_text("in the way")
    for topic in topics:
        send(server.bootstrap, topic, [{"id": 1}])
    with driving(file, "--once") as driver:
        driver.wait_for_line("t1: .*; retrying")
        assert driver.wait() == 1, driver.output
    assert [rows_in(table.path) for table in pipeline.landed] == [1, 0, 1, 1]
    assert "t1: stopped: " in driver.output
    for name in bad.glob("timestamp_date=*"):
        name.unlink()
    run_to_the_end(file)
    assert [rows_in(table.path) for table in pipeline.landed] == [1, 1, 1, 1]
