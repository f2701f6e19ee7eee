"""DescribeLogDirs and AlterReplicaLogDirs of a broker whose disk is full, broken or unusual."""

from typing import Any

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import PartitionIndex, TopicId, TopicName, TopicPartition
from sawlog.core.ports import DiskError
from sawlog.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from sawlog.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from sawlog.protocol.messages.describe_log_dirs_response import DescribeLogDirsResult
from sawlog.simulation.simulated_broker import SimulatedMachine
from sawlog.storage.log_directory import LogDirectory
from support.broker.requests import TOPIC, answers, batch_of, machine_with_topic, produce
from support.logged import fields_of

NONE = int(ErrorCode.NONE)
STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)


def describe(machine: SimulatedMachine) -> DescribeLogDirsResult:
    response = machine.ask(DescribeLogDirsRequest(topics=None))
    assert response.error_code == NONE
    (result,) = response.results
    assert isinstance(result, DescribeLogDirsResult)
    return result


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], tuple[int, int]]:
    """Size and lag of each log."""
    return {
        (topic.name, partition.partition_index): (partition.partition_size, partition.offset_lag)
        for topic in result.topics
        for partition in topic.partitions
    }


def move(machine: SimulatedMachine, path: str) -> int:
    topic = AlterReplicaLogDirTopic(TOPIC, [0])
    request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, [topic])])
    code: int = machine.ask(request).results[0].partitions[0].error_code
    return code


def break_disk(machine: SimulatedMachine) -> None:
    machine.disk.fails_syncs = True
    assert answers(machine.ask(produce(batch_of(machine, b"x")), 9))[0][0] == STORAGE_ERROR


def test_the_size_of_a_log_is_that_of_its_segments_without_indexes() -> None:
    machine = machine_with_topic(2, {"segment.ms": "1"})
    batches = []
    for _ in range(3):
        batches.append(batch_of(machine, b"x" * 1_000))
        machine.ask(produce(batches[-1]), 9)
        machine.schedule.run_for(10)
    files = [name for name in machine.disk.list(f"{TOPIC}-0") if name.endswith(".log")]
    assert len(files) == len(batches)
    written = sum(map(len, batches))
    assert sizes(describe(machine)) == {(TOPIC, 0): (written, 0), (TOPIC, 1): (0, 0)}


def test_the_space_is_that_of_the_file_system() -> None:
    machine = machine_with_topic()
    machine.disk.free_bytes = 12_345
    result = describe(machine)
    assert result.log_dir == machine.disk.root
    assert result.usable_bytes == 12_345
    assert result.total_bytes > result.usable_bytes
    assert not result.is_cordoned


def test_an_offline_directory_has_an_error_and_no_logs(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic()
    break_disk(machine)
    offline = "data directory offline: replace the disk, then restart the broker on it"
    assert fields_of(caplog, offline)["directory"] == machine.disk.root
    result = describe(machine)
    assert (result.log_dir, result.error_code) == (machine.disk.root, STORAGE_ERROR)
    assert (result.topics, result.total_bytes, result.usable_bytes) == ([], -1, -1)


def test_no_replica_moves_to_an_offline_directory() -> None:
    machine = machine_with_topic()
    assert move(machine, machine.disk.root) == NONE
    break_disk(machine)
    assert move(machine, machine.disk.root) == STORAGE_ERROR
    assert move(machine, "/other") == int(ErrorCode.LOG_DIR_NOT_FOUND)


def test_a_replica_whose_log_could_not_be_opened_is_not_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = SimulatedMachine(1)
    machine.boot()

    def fail(*_: object) -> None:
        raise DiskError(TOPIC, "no descriptors")

    with monkeypatch.context() as patch:
        patch.setattr(LogDirectory, "create", fail)
        machine.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], timeout_ms=10_000))
    assert move(machine, machine.disk.root) == int(ErrorCode.REPLICA_NOT_AVAILABLE)
    assert sizes(describe(machine)) == {}


def test_the_lag_of_a_log_without_a_replica_is_unknown() -> None:
    machine = machine_with_topic()
    name = TopicPartition(TopicName("unassigned"), PartitionIndex(0))
    components: Any = machine.broker.components
    config = components.directory.logs[TopicName(TOPIC), PartitionIndex(0)].config
    components.directory.create(name, TopicId(b"i" * 16), config)
    assert sizes(describe(machine)) == {(TOPIC, 0): (0, 0), tuple(name): (0, -1)}
