"""`status`, `check` and a landing agree on whether a table can continue, and why not."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sawlog.cli.commands import run
from sawlog.client.admin.admin import Admin
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.driver.driver_records import RunState
from sawlog.pipeline.landing.driver.run_recorder import RunRecorder
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from support.pipeline.landing import RecordedEvents, create_topic, land_here, pipeline_of, send
from support.server.broker_process import SawlogServer

RESUME = "sawlog pipeline resume TABLE --accept-loss -f FILE"


class World:
    """Two partitions with three records each have landed in `t`; `q` is a query over `t`."""

    def __init__(
        self, bootstrap: str, topic: str, directory: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.bootstrap, self.topic, self._capsys = bootstrap, topic, capsys
        create_topic(bootstrap, topic, 2)
        send(bootstrap, topic, [b"x"] * 6)
        tables = f"  t: {{topic: {topic}}}\n  q: {{sql: select * from t}}\n"
        self.pipeline = pipeline_of(directory, bootstrap, tables)
        land_here(self.pipeline)

    @property
    def table(self) -> Table:
        return Table.open(self.pipeline.landed[0].path)

    def status(self) -> tuple[int, dict[str, dict[str, Any]]]:
        code = run(["pipeline", "status", self.pipeline.file, "--json"])
        return code, {entry["table"]: entry for entry in json.loads(self._capsys.readouterr().out)}

    def printed(self) -> str:
        run(["pipeline", "status", self.pipeline.file])
        return self._capsys.readouterr().out

    def check(self) -> tuple[int, list[str]]:
        code = run(["pipeline", "check", self.pipeline.file])
        return code, self._capsys.readouterr().out.splitlines()


@pytest.fixture
def world(
    broker: SawlogServer, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> World:
    return World(broker.bootstrap, topic, tmp_path, capsys)


def delete_topic(world: World) -> None:
    with Cluster(world.bootstrap) as cluster:
        assert not Admin(cluster).delete_topics([world.topic])


def create_again(world: World) -> None:
    delete_topic(world)
    create_topic(world.bootstrap, world.topic, 2)
    send(world.bootstrap, world.topic, [b"y"] * 6)


def delete_records(world: World) -> None:
    send(world.bootstrap, world.topic, [b"x"] * 6)
    with Cluster(world.bootstrap) as cluster:
        Admin(cluster).delete_records({partition_of(world.topic, 1): 5})


def land_what_is_not_there(world: World) -> None:
    """Advance the table as if the broker had lost the end of its log."""
    world.table.commit("sawlog-t", [], {partition_of(world.topic, 0): OffsetSpan(3, 10)})


@pytest.mark.parametrize(
    ("happens", "told", "advice", "lag"),
    [
        (
            delete_topic,
            "the topic '{}' no longer exists",
            RESUME,
            None,
        ),
        (
            create_again,
            "the topic '{}' was deleted and created again",
            RESUME,
            None,
        ),
        (
            delete_records,
            "{}-1 no longer has all of the offsets 3 to 5: it begins at 5, and 3 to 4 are lost",
            f"to continue without them: {RESUME}",
            6,
        ),
        (
            land_what_is_not_there,
            "{}-0 ends at offset 3, and the table has it up to 10",
            f"to continue at its end: {RESUME}",
            None,
        ),
    ],
)
def test_status_shows_a_table_as_stopped_for_the_reason_a_landing_would_give(
    world: World, happens: Callable[[World], None], told: str, advice: str, lag: int | None
) -> None:
    happens(world)
    with pytest.raises(LandingFailure) as caught:
        land_here(world.pipeline)
    reason = caught.value.message
    assert told.format(world.topic) in reason
    assert advice in reason
    code, entries = world.status()
    assert code == 1
    assert (entries["t"]["state"], entries["t"]["reason"]) == ("stopped", reason)
    assert entries["t"]["lag"] == lag
    assert entries["t"]["rows"] == 6
    query = entries["q"]
    assert (query["state"], query["reason"]) == ("waiting", "'t', which it reads, is stopped")
    code, lines = world.check()
    assert code == 1
    assert lines[0] == f"t: stopped: {reason}"
    assert lines[1].startswith("q: a query over t; ")
    assert lines[1].endswith("; it gets no more rows from t")
    header, row, _ = world.printed().splitlines()
    assert header.split()[2] == "state"
    assert row.split()[2] == "stopped"
    assert row.rstrip().endswith(reason)


def test_a_table_that_can_continue_is_ready(world: World) -> None:
    """Even if all landed records, and only those, were deleted."""
    send(world.bootstrap, world.topic, [b"x"] * 2)
    with Cluster(world.bootstrap) as cluster:
        Admin(cluster).delete_records({partition_of(world.topic, 0): 3})
    code, entries = world.status()
    assert code == 0
    assert [entry["state"] for entry in entries.values()] == ["ready", "ready"]
    assert [entry["reason"] for entry in entries.values()] == [None, None]
    assert entries["t"]["lag"] == 2
    assert world.check()[0] == 0
    assert [batch.rows for batch in land_here(world.pipeline)] == [2]


def test_status_tells_the_state_of_a_running_table_and_its_driver(world: World) -> None:
    recorder = RunRecorder(world.pipeline, RecordedEvents())
    for table in ("t", "q"):
        recorder.state_changed(table, RunState.RUNNING)
    recorder.beat()
    code, entries = world.status()
    assert code == 0
    assert [entry["state"] for entry in entries.values()] == ["running", "running"]
    assert entries["t"]["drivers"] == [f"{socket.gethostname()}, process {os.getpid()}"]
    assert entries["t"]["since"].startswith("20")


def test_status_tells_since_when_a_table_is_stopped_after_its_driver_is_gone(
    world: World,
) -> None:
    delete_records(world)
    with RunRecorder(world.pipeline, RecordedEvents()) as recorder:
        recorder.state_changed("t", RunState.STOPPED, LandingFailure(FailureKind.DATA_LOSS, "lost"))
    code, entries = world.status()
    assert code == 1
    assert entries["t"]["state"] == "stopped"
    assert entries["t"]["since"].startswith("20")
    assert entries["t"]["drivers"] == []


def test_a_table_whose_topic_does_not_exist_yet_is_waiting(
    broker: SawlogServer, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = f"  t: {{topic: {topic}}}\n  q: {{sql: select * from t}}\n"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, tables)
    assert run(["pipeline", "status", pipeline.file, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["state"] == second["state"] == "waiting"
    assert f"there is no topic '{topic}'" in first["reason"]
