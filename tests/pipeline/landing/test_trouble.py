"""Deleted topics, retention and replays during a landing are reported or survived."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.client.admin.admin import Admin
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from sawlog.pipeline.landing.configuration.pipeline_file import read_pipeline
from support.pipeline.drivers import driving, kill_all, run_to_the_end, version_of
from support.pipeline.landing import (
    create_topic,
    pipeline_file,
    records_of,
    rows_of,
    send,
    values_in,
)
from support.process import ServerProcess, wait_until
from support.programs import require_java
from support.server.broker_process import SawlogServer, running_sawlog

pytestmark = [pytest.mark.long, pytest.mark.spark]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SawlogServer]:
    require_java()
    with running_sawlog(tmp_path / "broker") as started:
        yield started


def pipeline_at(tmp_path: Path, server: SawlogServer, tables: str) -> tuple[Path, PipelineConfig]:
    file = pipeline_file(tmp_path, server.bootstrap, tables)
    return file, read_pipeline(str(file))


def test_a_topic_deleted_during_a_run_stops_only_its_table(
    server: SawlogServer, tmp_path: Path
) -> None:
    for name in ("gone", "stays"):
        create_topic(server.bootstrap, name, 2)
        send(server.bootstrap, name, [b"a", b"b"])
    tables = "".join(
        f"  {name}: {{topic: {name}, commit: {{every: 100ms}}}}\n" for name in ("gone", "stays")
    )
    file, pipeline = pipeline_at(tmp_path, server, tables)
    gone, stays = pipeline.landed
    with driving(file) as driver:
        wait_until(lambda: min(version_of(t.path) for t in pipeline.landed) >= 1, driver)
        with Cluster(server.bootstrap) as cluster:
            assert not Admin(cluster).delete_topics(["gone"])
        driver.wait_for_line("gone: stopped: the topic 'gone' no longer exists")
        send(server.bootstrap, "stays", [b"c"])
        wait_until(lambda: len(values_in(stays.path)) == 3, driver)
        create_topic(server.bootstrap, "gone", 2)
        assert driver.terminate() == 1, driver.output
    assert sorted(value for _, value in values_in(gone.path)) == [b"a", b"b"]
    with driving(file, "--once") as driver:
        driver.wait_for_line("the topic 'gone' was deleted and created again")
        assert driver.wait() == 1


def test_records_lost_to_retention_stop_the_table_with_their_offsets(
    server: SawlogServer, tmp_path: Path
) -> None:
    create_topic(server.bootstrap, "t", 1)
    send(server.bootstrap, "t", [b"a", b"b"])
    file, pipeline = pipeline_at(tmp_path, server, "  t: {topic: t}\n")
    run_to_the_end(file)
    send(server.bootstrap, "t", [b"c", b"d", b"e"])
    with Cluster(server.bootstrap) as cluster:
        Admin(cluster).delete_records({partition_of("t", 0): 4})
    with driving(file, "--once") as driver:
        driver.wait_for_line(r"t-0 no longer has all of the offsets 2 to 4: it begins at 4")
        assert driver.wait() == 1
    assert [value for _, value in values_in(pipeline.landed[0].path)] == [b"a", b"b"]


def test_a_signal_to_the_process_group_stops_a_landing_cleanly(
    server: SawlogServer, tmp_path: Path
) -> None:
    """As systemd sends it: Spark's JVM exits first."""
    create_topic(server.bootstrap, "t", 1)
    send(server.bootstrap, "t", [b"a", b"b"])
    file, pipeline = pipeline_at(tmp_path, server, "  t: {topic: t, commit: {every: 100ms}}\n")
    (table,) = pipeline.landed
    with driving(file) as driver:
        wait_until(lambda: version_of(table.path) >= 1, driver)
        for process in driver.below("java"):
            process.terminate()
        assert driver.terminate() == 0, driver.output
    assert "Traceback" not in driver.output
    with driving(file) as driver:
        driver.wait_for_line("starting Spark")
        send(server.bootstrap, "t", [b"c"])
        wait_until(lambda: len(values_in(table.path)) == 3, driver)
        kill_all(driver.below("java"))
        driver.wait_for_line("Spark's JVM exited, .*; committed batches are safe")
        assert driver.wait() == 1, driver.output


def test_a_replay_during_a_landing_loses_and_duplicates_nothing(
    server: SawlogServer, tmp_path: Path
) -> None:
    create_topic(server.bootstrap, "t", 2)
    values = [b"{broken" if n % 5 == 0 else json.dumps({"id": n}).encode() for n in range(2_000)]
    send(server.bootstrap, "t", values)
    tables = "  t: {topic: t, format: json, commit: {rows: 300, every: 100ms}}\n"
    file, pipeline = pipeline_at(tmp_path, server, tables)
    table = pipeline.landed[0]
    with driving(file) as driver:
        wait_until(lambda: version_of(table.path) >= 3, driver)
        command = ["pipeline", "replay", "t", "--from", "0:100,1:50", "-f", str(file)]
        replay = ServerProcess([driver_python(), "-m", "sawlog.cli.main", *command])
        send(server.bootstrap, "t", values)
        wait_until(lambda: not replay.is_running, driver, replay)
        assert replay.wait() == 0, replay.output
        assert driver.terminate() == 0, driver.output
    run_to_the_end(file)
    records = records_of(server.bootstrap, "t")
    landed = [((row["partition"], row["offset"]), row["id"]) for row in rows_of(table.path)]
    good = [(place, json.loads(value)["id"]) for place, value in records if value != b"{broken"]
    assert sorted(landed) == good
    dead = [place for place, value in records if value == b"{broken"]
    assert [place for place, _ in values_in(table.dead_path)] == dead


def test_a_replay_into_a_new_table_has_the_records_from_its_start(
    server: SawlogServer, tmp_path: Path
) -> None:
    create_topic(server.bootstrap, "t", 2)
    send(server.bootstrap, "t", [b"%d" % number for number in range(20)])
    file, pipeline = pipeline_at(tmp_path, server, "  t: {topic: t}\n")
    run_to_the_end(file)
    before = values_in(pipeline.landed[0].path)
    command = ["pipeline", "replay", "t", "--from", "7", "--into", "again", "-f", str(file)]
    for _ in range(2):  # the second replay finds it done
        replay = ServerProcess([driver_python(), "-m", "sawlog.cli.main", *command])
        wait_until(lambda: not replay.is_running, replay)  # noqa: B023
        assert replay.wait() == 0, replay.output
    again = values_in(str(Path(pipeline.lake) / "again"))
    assert again == [entry for entry in before if entry[0][1] >= 7]
    assert values_in(pipeline.landed[0].path) == before


def driver_python() -> str:
    import sys

    return sys.executable
