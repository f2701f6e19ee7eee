"""The scheduler with a running broker and real tables, without Spark: sharing, failures, stops."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sawlog.client.admin.admin import Admin
from sawlog.client.net.cluster import Cluster
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from sawlog.pipeline.landing.driver import landing_jobs
from sawlog.pipeline.landing.driver.pipeline_runner import run_pipeline
from sawlog.pipeline.landing.driver.query_supervisor import Outcome
from sawlog.pipeline.landing.planning.task_split import split_into_tasks
from sawlog.pipeline.landing.planning.topic_poller import TopicPoller
from sawlog.pipeline.landing.task.table_task import TableTask
from support.pipeline.landing import RecordedEvents, create_topic, pipeline_of, send, values_in
from support.pipeline.local_context import LocalContext
from support.process import wait_until
from support.server.broker_process import SawlogServer


class World:
    """Tables `a`, `b` and `c` with two records each, and the jobs that land them."""

    def __init__(self, broker: SawlogServer, topic: str, directory: Path) -> None:
        self.broker, self.topic = broker, topic
        for name in ("a", "b", "c"):
            create_topic(broker.bootstrap, f"{topic}-{name}", 1)
            self.send(name, 2)
        tables = "".join(
            f"  {name}: {{topic: {topic}-{name}, commit: {{every: 50ms}}}}\n"
            for name in ("a", "b", "c")
        )
        self.pipeline = pipeline_of(directory, broker.bootstrap, tables)
        self.jobs: list[list[str]] = []
        self.events = RecordedEvents()
        self.stop = threading.Event()
        self.before_job: Callable[[list[str]], None] = lambda _: None

    def send(self, name: str, records: int) -> None:
        send(self.broker.bootstrap, f"{self.topic}-{name}", [b"x"] * records)

    def run(self, pipeline: PipelineConfig | None = None, *, once: bool = True) -> list[Outcome]:
        context: object = LocalContext(self._job)
        wanted = pipeline or self.pipeline
        return run_pipeline(context, wanted, self.events, self.stop, once=once)  # type: ignore[arg-type]

    def rows(self) -> list[int]:
        paths = [table.path for table in self.pipeline.landed]
        return [len(values_in(path)) if Table.exists(path) else 0 for path in paths]

    def _job(self, tasks: Sequence[TableTask]) -> None:
        names = sorted({task.table for task in tasks})
        self.jobs.append(names)
        self.before_job(names)


@pytest.fixture
def world(broker: SawlogServer, topic: str, tmp_path: Path) -> World:
    return World(broker, topic, tmp_path)


def test_a_run_with_once_lands_all_tables_and_ends(world: World) -> None:
    assert world.run() == [Outcome(name, None) for name in ("a", "b", "c")]
    assert world.rows() == [2, 2, 2]
    world.jobs.clear()
    world.run()
    assert world.jobs == [], "nothing is left to land"


def test_tables_of_a_job_that_failed_as_a_whole_land_by_themselves(world: World) -> None:
    """A worker that dies again and again fails its job, whichever table is the cause."""

    def kill(names: list[str]) -> None:
        if names == ["b"] and world.rows() == [2, 0, 2]:
            world.stop.set()
        if "b" in names:
            raise RuntimeError("the worker exited unexpectedly")

    world.before_job = kill
    world.run(once=False)
    assert world.rows() == [2, 0, 2]
    _, *later = [names for names in world.jobs if "b" in names]
    assert later
    assert all(names == ["b"] for names in later)
    assert "b: the worker exited unexpectedly; retrying" in world.events.lines


def test_no_table_continues_without_spark(world: World) -> None:
    def exit_jvm(_: list[str]) -> None:
        raise ConnectionRefusedError

    world.before_job = exit_jvm
    with pytest.raises(ConnectionRefusedError):
        world.run()
    assert world.rows() == [0, 0, 0]


def test_no_table_continues_without_the_ends_of_its_topics(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that ends must not leave tables that wait for ever."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(TopicPoller, "poll", fail)
    with pytest.raises(ZeroDivisionError):
        world.run(once=False)


def test_a_table_whose_batch_could_not_be_planned_is_retried(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [ZeroDivisionError("no cores")]

    def split(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return split_into_tasks(*arguments)

    monkeypatch.setattr(landing_jobs, "split_into_tasks", split)
    world.run()
    assert world.rows() == [2, 2, 2]
    (line,) = world.events.lines
    assert line.endswith(": no cores; retrying")


def test_a_job_in_flight_is_not_committed_after_the_stop(world: World) -> None:
    world.before_job = lambda _: world.stop.set()
    assert world.run(once=False) == [Outcome(name, None) for name in ("a", "b", "c")]
    assert world.rows() == [0, 0, 0]
    world.before_job = lambda _: None
    world.stop.clear()
    world.run()
    assert world.rows() == [2, 2, 2]


def test_a_running_pipeline_lands_new_records_partitions_and_topics(
    world: World, tmp_path: Path
) -> None:
    later = f"{world.topic}-later"
    tables = (
        f"  a: {{topic: {world.topic}-a, commit: {{every: 50ms}}}}\n"
        f"  later: {{topic: {later}, commit: {{every: 50ms}}}}\n"
    )
    directory = tmp_path / "more"
    directory.mkdir()
    pipeline = pipeline_of(directory, world.broker.bootstrap, tables)
    a, waiting = pipeline.landed
    running = threading.Thread(target=world.run, args=(pipeline,), kwargs={"once": False})
    running.start()
    try:
        wait_until(lambda: Table.exists(a.path) and len(values_in(a.path)) == 2)
        wait_until(lambda: any(line.endswith("; waiting for it") for line in world.events.lines))
        world.send("a", 3)
        wait_until(lambda: len(values_in(a.path)) == 5)
        with Cluster(world.broker.bootstrap) as cluster:
            assert not Admin(cluster).create_partitions({f"{world.topic}-a": 2})
        send(world.broker.bootstrap, f"{world.topic}-a", [b"x", b"y"])
        wait_until(lambda: len(values_in(a.path)) == 7)
        create_topic(world.broker.bootstrap, later, 1)
        send(world.broker.bootstrap, later, [b"x"])
        wait_until(lambda: Table.exists(waiting.path) and len(values_in(waiting.path)) == 1)
    finally:
        world.stop.set()
        running.join()
    waits = [line for line in world.events.lines if line.startswith("later: ")]
    assert len(waits) == 1, "a wait is reported once"
