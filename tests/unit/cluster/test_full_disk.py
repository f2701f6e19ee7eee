"""On a full disk the broker can stop, start, serve reads and delete topics."""

import logging
from typing import Any

import pytest

from sawlog.cluster.disk_reserve import REFILL_MS, RESERVE, RESERVE_BYTES
from sawlog.cluster.embedded_store import HELD_RETRY_MS
from sawlog.cluster.internal_topics import CONSUMER_OFFSETS
from sawlog.cluster.metadata_image import EMPTY_IMAGE
from sawlog.cluster.new_topic import NewTopic
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import TopicName
from sawlog.core.metrics import Registry
from sawlog.core.store import Create, Delete, SetData, StoreUnavailable
from sawlog.protocol.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from sawlog.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.records import Record, build_batch
from sawlog.simulation.schedule import SeededRandom
from sawlog.simulation.simulated_broker import SimulatedMachine
from sawlog.simulation.simulated_disk import SimulatedDisk
from support.cluster.member import SingleBroker
from support.cluster.stores import EmbeddedOnSimulatedDisk, Session


@pytest.fixture
def machine() -> SimulatedMachine:
    """A machine with a topic of three partitions and a record in the first."""
    machine = SimulatedMachine(1)
    machine.boot()
    topics = [
        CreatableTopic(name=name, num_partitions=3, replication_factor=1) for name in ("t", "u")
    ]
    machine.ask(CreateTopicsRequest(topics=topics, timeout_ms=1_000))
    assert produce(machine) == 0
    machine.schedule.run_for(1_000)
    return machine


def produce(machine: SimulatedMachine, index: int = 0) -> int:
    batch = build_batch([Record(0, 1, None, b"value", ())])
    data = PartitionProduceData(index=index, records=memoryview(bytes(batch)))
    topic = TopicProduceData(name="t", partition_data=[data])
    response = machine.ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[topic]), 9)
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def fetched(machine: SimulatedMachine, index: int = 0) -> tuple[int, bool]:
    """Return the error code, and whether the record was fetched."""
    partition = FetchPartition(partition=index, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="t", partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[topic])
    partition: Any = machine.ask(request, 11).responses[0].partitions[0]
    return partition.error_code, b"value" in bytes(partition.records or b"")


def delete(machine: SimulatedMachine, name: str) -> int:
    topics = [DeleteTopicState(name=name, topic_id=bytes(16))]
    response = machine.ask(DeleteTopicsRequest(topics=topics, timeout_ms=5_000))
    code: int = response.responses[0].error_code
    return code


def fill(disk: SimulatedDisk) -> None:
    disk.free_bytes = 0


@pytest.mark.parametrize("clean", [True, False])
def test_reads_are_served_after_a_start_on_a_full_disk(
    machine: SimulatedMachine, clean: bool
) -> None:
    for _ in range(3):
        fill(machine.disk)
        if clean:
            machine.stop()
        else:
            machine.kill()
        machine.boot()
        machine.schedule.run_for(1_000)
        assert fetched(machine) == (0, True)
        assert produce(machine) != 0
    machine.disk.free_bytes = None
    machine.schedule.run_for(10_000)
    assert produce(machine) == 0


def restart_on_a_full_disk(machine: SimulatedMachine) -> None:
    fill(machine.disk)
    machine.stop()
    machine.boot()
    machine.schedule.run_for(1_000)


def free_space(machine: SimulatedMachine) -> None:
    machine.disk.free_bytes = None
    machine.schedule.run_for(10_000)


def stray_logs(machine: SimulatedMachine) -> list[str]:
    return [name for name in machine.disk.list("") if name.endswith("-stray")]


def test_a_topic_that_cannot_grow_on_a_full_disk_keeps_its_records(
    machine: SimulatedMachine,
) -> None:
    """The last free bytes take the new assignment, but not the states of its partitions."""
    machine.disk.free_bytes = 500
    growth = CreatePartitionsTopic(name="t", count=6, assignments=None)
    response = machine.ask(CreatePartitionsRequest(topics=[growth], timeout_ms=2_000))
    assert response.results[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    restart_on_a_full_disk(machine)
    assert fetched(machine) == (0, True)
    free_space(machine)
    assert fetched(machine) == (0, True)
    assert produce(machine, 5) == 0
    assert stray_logs(machine) == []


def test_an_incomplete_consumer_offsets_topic_is_not_in_the_image() -> None:
    """With fewer partitions, groups would be hashed to other partitions than later."""
    broker = SingleBroker()
    broker.create(CONSUMER_OFFSETS.name, 3)
    broker.create("t", 3)
    view = broker.member._view
    for name in (CONSUMER_OFFSETS.name, "t"):
        del view.topics[TopicName(name)].states[2]
        view.mark_changed(TopicName(name))
    image = view.image(EMPTY_IMAGE)
    assert {name: len(topic.partitions) for name, topic in image.topics.items()} == {"t": 2}


def test_a_log_without_partition_metadata_is_served_on_a_full_disk(
    machine: SimulatedMachine,
) -> None:
    machine.disk.remove("t-0/partition.metadata")
    restart_on_a_full_disk(machine)
    assert fetched(machine) == (0, True)
    free_space(machine)
    assert machine.disk.exists("t-0/partition.metadata")
    assert produce(machine) == 0
    assert stray_logs(machine) == []


def test_a_log_that_cannot_be_created_does_not_affect_the_other_partitions(
    machine: SimulatedMachine,
) -> None:
    assert produce(machine, 2) == 0
    machine.disk.remove_directory("t-1")
    restart_on_a_full_disk(machine)
    assert fetched(machine, 1)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched(machine, 2) == (0, True)
    free_space(machine)
    assert fetched(machine, 2) == (0, True)
    assert produce(machine, 1) == 0
    assert stray_logs(machine) == []


def test_elections_on_a_full_disk_are_written_when_there_is_space() -> None:
    broker = SingleBroker()
    broker.create("t", 2)
    fill(broker.disk)
    broker.restart()
    before = broker.image.topics[TopicName("t")].partitions[0].leader_epoch
    broker.disk.free_bytes = None
    broker.schedule.run_for(2 * HELD_RETRY_MS)
    broker.restart()
    assert before == 1
    assert broker.image.topics[TopicName("t")].partitions[0].leader_epoch == 2


@pytest.mark.parametrize("restarts", [0, 2])
def test_topics_deleted_on_a_full_disk_stay_deleted(
    machine: SimulatedMachine, restarts: int
) -> None:
    fill(machine.disk)
    for _ in range(restarts):
        machine.kill()
        machine.boot()
        fill(machine.disk)
    assert delete(machine, "u") == 0
    machine.kill()
    fill(machine.disk)
    machine.boot()
    assert list(machine.broker.metadata.image.topics) == ["t"]


def test_creating_a_topic_does_not_use_the_reserve(machine: SimulatedMachine) -> None:
    fill(machine.disk)
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    response = machine.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
    assert response.topics[0].error_code == 56
    assert len(machine.disk.read_file(RESERVE)) == RESERVE_BYTES


def test_the_reserve_is_refilled_when_there_is_space(machine: SimulatedMachine) -> None:
    fill(machine.disk)
    assert delete(machine, "u") == 0
    assert 0 < len(machine.disk.read_file(RESERVE)) < RESERVE_BYTES
    machine.schedule.run_for(2 * REFILL_MS)
    assert len(machine.disk.read_file(RESERVE)) < RESERVE_BYTES
    machine.disk.free_bytes = None
    machine.schedule.run_for(2 * REFILL_MS)
    assert len(machine.disk.read_file(RESERVE)) == RESERVE_BYTES


def test_a_broker_starts_with_a_pending_deletion_and_no_space_at_all() -> None:
    broker = SingleBroker()
    broker.create("t", 2)
    broker.schedule.run_for(100)
    results: list[object] = []
    broker.member._controller.stop()  # it does not see the delete request
    broker.store.multi([Create("/admin/delete_topics/t")], results.append)
    broker.schedule.run(lambda: bool(results))
    broker.disk.remove(RESERVE)
    fill(broker.disk)
    broker.restart()
    assert TopicName("t") in broker.image.topics
    broker.disk.free_bytes = None
    broker.schedule.run_for(5_000)
    assert broker.image.topics == {}


# The store alone


def test_ephemeral_nodes_need_no_disk_space() -> None:
    harness = EmbeddedOnSimulatedDisk()
    session = Session(harness)
    session.multi(Create("/a"))
    fill(harness.disk)
    session.multi(Create("/a/e", ephemeral=True))
    session.multi(SetData("/a/e", b"1"))
    with pytest.raises(StoreUnavailable):
        session.multi(SetData("/a", b"1"), Create("/a/f", ephemeral=True))
    assert session.children("/a") == ["e"]
    session.close()
    assert Session(harness).children("/a") == []


def test_a_change_after_ephemeral_ones_survives_a_power_loss() -> None:
    """Held changes are written in order before the next change."""
    for seed in range(20):
        harness = EmbeddedOnSimulatedDisk(seed)
        session = Session(harness)
        session.multi(Create("/a"), Create("/e", ephemeral=True))
        for number in range(5):
            session.multi(SetData("/e", b"%d" % number))
            session.multi(Create("/f", ephemeral=True))
            session.multi(Create("/a/n", sequential=True))
            session.multi(Delete("/f"))
        created = session.exists("/a/n0000000004").created
        harness.schedule.clear()
        harness.disk.power_loss(SeededRandom(seed))
        after = Session(harness)
        assert len(after.children("/a")) == 5
        assert after.exists("/a/n0000000004").created == created
        assert after.children("/") == ["a"]


def test_a_full_disk_is_logged_once_and_its_end_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The controller retries every second; not every attempt is logged."""
    broker = SingleBroker()
    broker.create("t", 2)
    planned = broker.topics.plan(NewTopic("u", 50))
    results: list[object] = []
    broker.topics.create(planned, 60_000, results.append)
    broker.disk.free_bytes = 0
    with caplog.at_level(logging.INFO):
        broker.schedule.run_for(20_000)
        full = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
        assert full.count("metadata cannot be written: free disk space") == 1
        assert not [line for line in full if "controller" in line]
        broker.disk.free_bytes = None
        assert broker.schedule.run(lambda: bool(results))
    assert results == [None]
    lines = [r.getMessage() for r in caplog.records]
    assert lines.count("metadata can be written again") == 1


def test_rejected_writes_are_counted(machine: SimulatedMachine) -> None:
    registry = Registry()
    machine.broker.declare_metrics(registry)
    assert "sawlog_refused_writes_total 0" in registry.render()
    fill(machine.disk)
    assert produce(machine) == ErrorCode.KAFKA_STORAGE_ERROR
    assert "sawlog_refused_writes_total 1" in registry.render()
