"""Tables of several topics: a list, or those that match a pattern. Without Spark."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sawlog.client.admin.admin import Admin
from sawlog.client.consumer.consumer import AtOffset
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, PipelineConfig
from sawlog.pipeline.landing.driver.pipeline_runner import run_pipeline
from sawlog.pipeline.landing.driver.pipeline_status import State, TableStatus, statuses
from sawlog.pipeline.landing.driver.preflight import check_landed
from sawlog.pipeline.landing.driver.replay import (
    InvalidReplayStart,
    create_replay_table,
    replay_target,
    resolve_replay_start,
    restore_to,
)
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from support.pipeline.landing import (
    RecordedEvents,
    create_topic,
    land_here,
    pipeline_of,
    rows_of,
    send,
)
from support.pipeline.local_context import LocalContext
from support.process import wait_until
from support.server.broker_process import SawlogServer

if TYPE_CHECKING:
    from sawlog.pipeline.landing.driver.query_supervisor import Outcome


class World:
    """Topics `a` and `b` with two partitions and three records each, and a table of both."""

    def __init__(self, broker: SawlogServer, topic: str, directory: Path) -> None:
        self.bootstrap, self.prefix, self._directory = broker.bootstrap, topic, directory
        self.events = RecordedEvents()
        self.outcomes: list[Outcome] = []
        for name in ("a", "b"):
            self.create(name)
            self.send(name, 3)

    def create(self, name: str) -> None:
        create_topic(self.bootstrap, self.topic(name), 2)

    def topic(self, name: str) -> str:
        return f"{self.prefix}.{name}"

    def send(self, name: str, records: int) -> None:
        send(self.bootstrap, self.topic(name), [b"%d" % number for number in range(records)])

    def delete(self, name: str) -> None:
        with Cluster(self.bootstrap) as cluster:
            assert not Admin(cluster).delete_topics([self.topic(name)])

    def pipeline(self, *names: str, more: str = "") -> PipelineConfig:
        """A pipeline with these topics, or with all that match."""
        listed = ", ".join(self.topic(name) for name in names)
        topics = f"topics: [{listed}]" if names else f"topic_pattern: '{self.prefix}[.].*'"
        entry = f"  t: {{{topics}, commit: {{every: 50ms}}{more}}}\n"
        return pipeline_of(self._directory, self.bootstrap, entry)

    def counts(self, table: LandedTable) -> dict[str, int]:
        """The rows of each topic; each record is there at most once."""
        rows = rows_of(table.path) if Table.exists(table.path) else []
        places = [(row["topic"], row["partition"], row["offset"]) for row in rows]
        assert len(set(places)) == len(places)
        found = [topic.removeprefix(f"{self.prefix}.") for topic, _, _ in places]
        return {name: found.count(name) for name in sorted(set(found))}

    @contextmanager
    def running(self, pipeline: PipelineConfig) -> Iterator[None]:
        stop = threading.Event()
        context: object = LocalContext(lambda _: None)

        def run() -> None:
            self.outcomes = run_pipeline(context, pipeline, self.events, stop, once=False)  # type: ignore[arg-type]

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def status(self, pipeline: PipelineConfig) -> TableStatus:
        with Cluster(self.bootstrap) as cluster:
            (found,) = statuses(pipeline, cluster, lambda _: None)
        return found

    def check(self, pipeline: PipelineConfig) -> str:
        with Cluster(self.bootstrap) as cluster:
            return check_landed(cluster, pipeline.landed[0]).text


@pytest.fixture
def world(broker: SawlogServer, topic: str, tmp_path: Path) -> World:
    return World(broker, topic, tmp_path)


def test_topics_of_a_list_land_in_one_table(world: World) -> None:
    pipeline = world.pipeline("a", "b")
    names = f"{world.topic('a')}, {world.topic('b')}"
    assert world.check(pipeline) == f"will be created from 4 partitions of '{names}'"
    (table,) = pipeline.landed
    land_here(pipeline)
    assert world.counts(table) == {"a": 3, "b": 3}
    world.send("b", 2)
    status = world.status(pipeline)
    assert (status.state, status.topic, status.records_read, status.lag) == (
        State.READY, names, 6, 2,
    )  # fmt: skip
    land_here(pipeline)
    assert world.counts(table) == {"a": 3, "b": 5}
    assert world.check(pipeline) == f"continues after 8 records in 4 partitions of '{names}'"


@pytest.mark.parametrize("names", [("a", "b", "c"), ()])
def test_topics_that_appear_during_a_run_land_from_their_first_record(
    world: World, names: tuple[str, ...]
) -> None:
    pipeline = world.pipeline(*names, more=", start: latest")
    (table,) = pipeline.landed
    with world.running(pipeline):
        wait_until(lambda: Table.exists(table.path))
        world.send("a", 1)
        wait_until(lambda: world.counts(table) == {"a": 1})
        world.create("c")
        world.send("c", 3)
        wait_until(lambda: world.counts(table) == {"a": 1, "c": 3})
        world.send("b", 2)
        world.send("c", 1)
        wait_until(lambda: world.counts(table) == {"a": 1, "b": 2, "c": 4})
    assert f"t: lands new topics too: {world.topic('c')}" in world.events.lines
    assert [outcome.failure for outcome in world.outcomes] == [None]
    offsets = Table.open(table.path).offsets(table.group)
    assert {tp.topic for tp in offsets} == {world.topic(name) for name in "abc"}
    assert world.status(pipeline).lag == 0


def test_check_names_the_topics_that_a_pattern_matches(world: World) -> None:
    of = f"4 partitions of '{world.prefix}[.].*', which matches"
    both = f"{world.topic('a')}, {world.topic('b')}"
    pipeline = world.pipeline()
    assert world.check(pipeline) == f"will be created from {of} {both}"
    land_here(pipeline)
    assert world.check(pipeline) == f"continues after 6 records in {of} {both}"


def test_a_pattern_without_a_topic_waits_for_the_first(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    entry = f"  t: {{topic_pattern: '{topic}-x.*', commit: {{every: 50ms}}}}\n"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, entry)
    world = World(broker, topic, tmp_path)
    assert world.check(pipeline) == f"no topic matches '{topic}-x.*' yet"
    assert world.status(pipeline).state is State.WAITING
    with world.running(pipeline):
        wait_until(lambda: any("no topic matches" in line for line in world.events.lines))
        create_topic(broker.bootstrap, f"{topic}-x1", 1)
        send(broker.bootstrap, f"{topic}-x1", [b"x"])
        path = pipeline.landed[0].path
        wait_until(lambda: Table.exists(path) and len(rows_of(path)) == 1)


@pytest.mark.parametrize("names", [("a", "b"), ()])
def test_a_deleted_topic_stops_the_table_until_it_is_taken_out(
    world: World, names: tuple[str, ...]
) -> None:
    pipeline = world.pipeline(*names)
    (table,) = pipeline.landed
    land_here(pipeline)
    world.delete("b")
    status = world.status(pipeline)
    assert status.state is State.STOPPED
    told = f"the topic '{world.topic('b')}' no longer exists; to go on with the others"
    assert status.reason is not None
    assert status.reason.startswith(told)
    with pytest.raises(LandingFailure) as caught:
        land_here(pipeline)
    assert caught.value.kind is FailureKind.TOPIC_DELETED
    world.send("a", 1)
    land_here(world.pipeline("a"))
    assert world.counts(table) == {"a": 4, "b": 3}
    world.create("b")
    with pytest.raises(LandingFailure, match="was deleted and created again"):
        land_here(pipeline)


@pytest.mark.parametrize("names", [("a", "b"), ()])
def test_a_topic_deleted_during_a_run_stops_the_table(
    world: World, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sawlog.pipeline.landing.driver.landing_scheduler.MISSING_S", 0.5)
    pipeline = world.pipeline(*names)
    with world.running(pipeline):
        wait_until(lambda: world.counts(pipeline.landed[0]) == {"a": 3, "b": 3})
        world.delete("b")
        wait_until(lambda: any("no longer exists" in line for line in world.events.lines))


def test_a_topic_may_be_added_to_a_table_of_one_topic(world: World) -> None:
    single = f"  t: {{topic: {world.topic('a')}}}\n"
    land_here(pipeline_of(world._directory, world.bootstrap, single))
    pipeline = world.pipeline("a", "b")
    land_here(pipeline)
    assert world.counts(pipeline.landed[0]) == {"a": 3, "b": 3}
    world.create("c")
    with pytest.raises(LandingFailure, match=r"has records of .*, the file says"):
        land_here(world.pipeline("c"))


def test_a_replay_restores_all_topics_or_named_partitions(world: World) -> None:
    pipeline = world.pipeline()
    (table,) = pipeline.landed
    land_here(pipeline)
    first, second = partition_of(world.topic("a"), 0), partition_of(world.topic("b"), 1)
    with Cluster(world.bootstrap) as cluster:
        with pytest.raises(InvalidReplayStart, match="several topics: name that of each"):
            resolve_replay_start(cluster, table, {0: 1})
        with pytest.raises(InvalidReplayStart, match=r"has 4 partitions, not .*\.a/7"):
            resolve_replay_start(cluster, table, {partition_of(world.topic("a"), 7): 1})
        starts = resolve_replay_start(cluster, table, {first: 1, second: 0})
        assert restore_to(cluster, table, starts) == {first: 1, second: 0}
        assert world.counts(table) == {"a": 2, "b": 2}
        land_here(pipeline)
        assert world.counts(table) == {"a": 3, "b": 3}
        restore_to(cluster, table, resolve_replay_start(cluster, table, AtOffset(0)))
        assert world.counts(table) == {}
        land_here(pipeline)
        assert world.counts(table) == {"a": 3, "b": 3}
        copy = replay_target(table, "copy")
        assert create_replay_table(cluster, copy, {first: 1})
    offsets = Table.open(copy.path).offsets(copy.group)
    assert sorted(offsets.values()) == [1, 1, 1, 2]


def test_dead_letters_of_several_topics_name_theirs(world: World) -> None:
    pipeline = world.pipeline(more=", format: json")
    (table,) = pipeline.landed
    (batch,) = land_here(pipeline)
    assert (batch.rows, batch.bad_rows) == (0, 6)
    topics = [row["topic"] for row in rows_of(table.dead_path)]
    assert {topic: topics.count(topic) for topic in topics} == {
        world.topic("a"): 3, world.topic("b"): 3,
    }  # fmt: skip
