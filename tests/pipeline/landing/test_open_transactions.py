"""A run and `status` report the records that an open transaction holds back; without Spark."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sawlog.cli.commands import run
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.producer.producer import Producer
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.driver.pipeline_runner import run_pipeline
from sawlog.pipeline.landing.planning import held_back_records
from support.client.transactional_topic import stable_end
from support.pipeline.landing import RecordedEvents, create_topic, pipeline_of, send, values_in
from support.pipeline.local_context import LocalContext
from support.process import wait_until
from support.server.broker_process import SawlogServer

SEE = "see `sawlog transactions list` and `find-hanging`"


class World:
    """A topic with three records, then two of an open transaction, and the table `t` of it."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        directory: Path,
        producer: Producer,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self._producer, self._capsys = producer, capsys
        self.text = f"held back by an open transaction: 2 records of {topic}-0 from offset 3 on;"
        create_topic(bootstrap, topic, 1)
        send(bootstrap, topic, [b"x"] * 3)
        producer.begin()
        for _ in range(2):
            producer.send(topic, b"y", partition=0)
        producer.flush()
        tables = f"  t: {{topic: {topic}, commit: {{every: 50ms}}}}\n"
        self.pipeline = pipeline_of(directory, bootstrap, tables)
        self.events = RecordedEvents()
        self.stop = threading.Event()

    def commit(self) -> None:
        self._producer.commit()
        with Cluster(self.bootstrap) as cluster:
            stable_end(cluster, partition_of(self.topic, 0))

    def run(self, *, once: bool = True) -> None:
        context: Any = LocalContext()
        (outcome,) = run_pipeline(context, self.pipeline, self.events, self.stop, once=once)
        assert outcome.failure is None

    def rows(self) -> int:
        path = self.pipeline.landed[0].path
        return len(values_in(path)) if Table.exists(path) else 0

    def status(self) -> dict[str, Any]:
        assert run(["pipeline", "status", self.pipeline.file, "--json"]) == 0
        (entry,) = json.loads(self._capsys.readouterr().out)
        return dict(entry)

    def printed(self) -> str:
        assert run(["pipeline", "status", self.pipeline.file]) == 0
        return self._capsys.readouterr().out


@pytest.fixture
def world(
    broker: SawlogServer, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[World]:
    with (
        Cluster(broker.bootstrap) as cluster,
        Producer(cluster, transactional_id=f"fills-{topic}") as producer,
    ):
        yield World(broker.bootstrap, topic, tmp_path, producer, capsys)


def test_records_of_an_open_transaction_are_reported_until_it_ends(world: World) -> None:
    world.run()
    assert world.rows() == 3
    assert world.events.lines == [f"t: not landed, since {world.text} {SEE}"]
    entry = world.status()
    assert (entry["state"], entry["lag"], entry["held_back"]) == ("ready", 2, 2)
    assert entry["reason"] == f"{world.text} {SEE}"
    assert entry["partitions"] == [
        {"topic": world.topic, "partition": 0, "offset": 3, "end": 5, "held_back": 2}
    ]
    assert world.printed().rstrip().endswith(f"{world.text} {SEE}")
    world.commit()
    entry = world.status()
    assert (entry["lag"], entry["held_back"], entry["reason"]) == (3, 0, None)
    world.run()
    assert world.rows() == 5
    assert len(world.events.lines) == 1, "nothing more is held back"
    assert world.status()["lag"] == 0


def test_a_run_reports_a_transaction_that_stays_open_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_back_records, "CHECK_EVERY_S", 0.1)
    monkeypatch.setattr(held_back_records, "REPORT_AFTER_S", 0.5)
    running = threading.Thread(target=world.run, kwargs={"once": False})
    running.start()
    try:
        wait_until(lambda: world.events.lines != [])
        wait_until(lambda: world.rows() == 3)
        wait_until(lambda: ("t", 3, 5) in world.events.measured)
        world.commit()
        wait_until(lambda: world.rows() == 5)
        wait_until(lambda: world.events.measured[-1] == ("t", 6, 6))
    finally:
        world.stop.set()
        running.join()
    assert world.events.lines == [f"t: {world.text} {SEE}"]
