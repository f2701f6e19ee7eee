"""The life cycle of replicas: opened, identified, set aside, reopened, deleted."""

import pytest

from sawlog.broker.replicas import REOPEN_MS
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ports import DiskError
from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from sawlog.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from sawlog.simulation.simulated_broker import SimulatedMachine
from sawlog.storage.log_directory import LogDirectory
from support.broker.requests import (
    NAMED,
    TOPIC,
    answers,
    batch_of,
    fetch,
    machine_with_topic,
    produce,
    values,
)

METADATA = f"{TOPIC}-0/partition.metadata"


def test_log_without_metadata_gets_its_topic_id_again() -> None:
    machine = machine_with_topic()
    machine.ask(produce(batch_of(machine, b"a")), NAMED)
    machine.stop()
    written = machine.disk.read_file(METADATA)
    machine.disk.remove(METADATA)
    machine.boot()
    assert machine.disk.read_file(METADATA) == written
    assert values(machine.ask(fetch(0), NAMED)) == [[b"a"]]


def test_log_of_an_unknown_topic_is_set_aside() -> None:
    machine = machine_with_topic()
    machine.stop()
    machine.disk.make_directory("ghost-0")
    machine.disk.open("ghost-0/00000000000000000000.log", create=True)
    machine.boot()
    names = machine.disk.list("")
    assert "ghost-0" not in names
    assert [name for name in names if name.startswith("ghost-0.") and name.endswith("-stray")]
    assert list(machine.broker.replicas.by_partition) == [(TOPIC, 0)]


def test_a_stray_directory_is_no_log_and_may_be_deleted() -> None:
    machine = machine_with_topic()
    machine.stop()
    machine.disk.make_directory("ghost-0")
    machine.disk.open("ghost-0/00000000000000000000.log", create=True)
    machine.boot()
    for _ in range(2):
        (stray,) = (name for name in machine.disk.list("") if name.endswith("-stray"))
        assert list(machine.broker.components.directory.logs) == [(TOPIC, 0)]
        (result,) = machine.ask(DescribeLogDirsRequest(topics=None)).results
        assert [topic.name for topic in result.topics] == [TOPIC]
        machine.lose_power()
        machine.boot()
    for name in machine.disk.list(stray):
        machine.disk.remove(f"{stray}/{name}")
    machine.disk.remove_directory(stray)
    machine.ask(produce(batch_of(machine, b"a")), NAMED)
    machine.lose_power()
    machine.boot()
    machine.schedule.run_for(1_000)  # the high watermark follows the first flush
    assert values(machine.ask(fetch(0), NAMED)) == [[b"a"]]


def test_log_of_an_older_topic_with_the_same_name_is_set_aside() -> None:
    machine = machine_with_topic()
    machine.ask(produce(batch_of(machine, b"old")), NAMED)
    machine.stop()
    older = machine.disk.read_file(METADATA)
    machine.boot()
    machine.ask(DeleteTopicsRequest([DeleteTopicState(TOPIC)], timeout_ms=10_000))
    machine.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], timeout_ms=10_000))
    machine.stop()
    machine.disk.replace(METADATA, older)
    machine.boot()
    assert values(machine.ask(fetch(0), NAMED)) == [[]]
    assert any(name.endswith("-stray") for name in machine.disk.list(""))


def test_log_that_cannot_be_opened_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(1)
    machine.boot()

    def fail(*_: object) -> None:
        raise DiskError(TOPIC, "no descriptors")

    with monkeypatch.context() as patch:
        patch.setattr(LogDirectory, "create", fail)
        machine.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], timeout_ms=10_000))
    with pytest.raises(KafkaError) as refused:
        machine.broker.replicas.leader(TOPIC, 0)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    machine.schedule.run_for(REOPEN_MS)
    assert answers(machine.ask(produce(batch_of(machine, b"a")), NAMED)) == [(0, 0)]


def test_deleted_topic_is_not_reopened(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(1)
    machine.boot()

    def fail(*_: object) -> None:
        raise DiskError(TOPIC, "no descriptors")

    with monkeypatch.context() as patch:
        patch.setattr(LogDirectory, "create", fail)
        machine.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], timeout_ms=10_000))
    machine.ask(DeleteTopicsRequest([DeleteTopicState(TOPIC)], timeout_ms=10_000))
    machine.schedule.run_for(2 * REOPEN_MS)
    assert len(machine.broker.replicas) == 0
    assert not machine.disk.exists(f"{TOPIC}-0")


def test_unknown_partition_has_no_leader() -> None:
    machine = machine_with_topic()
    for topic, index in ((TOPIC, 1), (TOPIC, -1), ("nowhere", 0)):
        with pytest.raises(KafkaError) as refused:
            machine.broker.replicas.leader(topic, index)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_replicas_are_opened_again_after_a_restart() -> None:
    machine = machine_with_topic(partitions=3)
    machine.stop()
    machine.boot()
    assert sorted(machine.broker.replicas.by_partition) == [(TOPIC, 0), (TOPIC, 1), (TOPIC, 2)]
