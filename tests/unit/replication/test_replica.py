"""A replica on a simulated disk: its high watermark, its flushes and its waiters."""

from typing import Any

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import LeaderEpoch
from sawlog.core.ports import DiskError, TooManyOpenFiles
from sawlog.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sawlog.protocol.record_batch import check_produced
from sawlog.protocol.records import Record, build_batch
from sawlog.replication.replica import QUIET_FLUSH_MS, Replica
from sawlog.simulation.simulated_broker import SimulatedMachine
from sawlog.simulation.simulated_disk import SimulatedFile


def create_replica(machine: SimulatedMachine, **configs: str) -> Replica:
    """Boot a broker and create the only partition of a topic with these configs."""
    machine.boot()
    settings = [
        CreatableTopicConfig(name.replace("_", "."), value) for name, value in configs.items()
    ]
    topic = CreatableTopic("t", 1, 1, configs=settings)
    answer = machine.ask(CreateTopicsRequest([topic], timeout_ms=10_000))
    assert answer.topics[0].error_code == 0, answer
    return machine.broker.replicas.by_partition["t", 0]


def append(
    partition: Replica, machine: SimulatedMachine, count: int = 1, *, is_awaited: bool = False
) -> int:
    now_ms = machine.schedule.now_ms()
    batch = memoryview(build_batch([Record(0, now_ms, b"k", b"v", ())] * count))
    header = check_produced(batch, max_batch_bytes=1 << 20)
    return partition.append(batch, header, is_awaited=is_awaited).base_offset


class Waiter:
    """A waiter that keeps the outcomes it was called with."""

    def __init__(self) -> None:
        self.outcomes: list[KafkaError | None] = []

    def __call__(self, error: KafkaError | None) -> None:
        self.outcomes.append(error)


class WaitingFetch:
    """A fetch in purgatory that counts its retries."""

    def __init__(self) -> None:
        self.looks = 0

    def offset_moved(self) -> None:
        self.looks += 1


def test_the_high_watermark_advances_with_the_flush() -> None:
    machine = SimulatedMachine(1)
    partition = create_replica(machine)
    append(partition, machine, 3)
    waiter = Waiter()
    partition.when_committed(3, waiter)
    assert partition.high_watermark == 0
    assert waiter.outcomes == []
    assert machine.schedule.run(lambda: bool(waiter.outcomes))
    assert waiter.outcomes == [None]
    assert partition.high_watermark == partition.log.flushed_offset == 3


def test_with_flush_policy_os_the_high_watermark_is_the_log_end_offset() -> None:
    machine = SimulatedMachine(1, flush_policy="os")
    partition = create_replica(machine)
    append(partition, machine, 3)
    assert partition.high_watermark == 3
    assert partition.log.flushed_offset == 0


def test_with_flush_policy_os_flush_messages_starts_a_flush() -> None:
    machine = SimulatedMachine(1, flush_policy="os")
    partition = create_replica(machine, flush_messages="5")
    append(partition, machine, 4)
    machine.schedule.run_for(1_000)
    assert partition.log.flushed_offset == 0
    append(partition, machine, 1)
    machine.schedule.run_for(1)
    assert partition.log.flushed_offset == 5


def test_with_flush_policy_os_flush_ms_starts_a_flush() -> None:
    machine = SimulatedMachine(1, flush_policy="os")
    partition = create_replica(machine, flush_ms="500")
    append(partition, machine, 4)
    machine.schedule.run_for(499)
    assert partition.log.flushed_offset == 0
    machine.schedule.run_for(2)
    assert partition.log.flushed_offset == 4


def test_awaited_records_are_flushed_at_once() -> None:
    machine = SimulatedMachine(1)
    partition = create_replica(machine)
    append(partition, machine, is_awaited=True)
    machine.schedule.run_for(QUIET_FLUSH_MS - 1)
    assert partition.high_watermark == 1


def test_records_without_a_waiter_are_flushed_after_a_delay() -> None:
    machine = SimulatedMachine(1)
    partition = create_replica(machine)
    append(partition, machine)
    machine.schedule.run_for(QUIET_FLUSH_MS - 1)
    assert partition.high_watermark == 0
    machine.schedule.run_for(2)
    assert partition.high_watermark == 1


def test_a_waiting_fetch_starts_a_flush_and_is_retried_after_it() -> None:
    machine = SimulatedMachine(1)
    partition = create_replica(machine)
    reader = WaitingFetch()
    partition.watch(reader)
    append(partition, machine)
    machine.schedule.run_for(0)
    assert reader.looks == 1
    partition.unwatch(reader)
    append(partition, machine)
    machine.schedule.run_for(QUIET_FLUSH_MS + 1)
    assert reader.looks == 1


def test_records_written_during_a_flush_are_committed_by_the_next() -> None:
    machine = SimulatedMachine(1)
    partition = create_replica(machine)
    first, second = Waiter(), Waiter()
    append(partition, machine)
    partition.when_committed(1, first)
    append(partition, machine)
    partition.when_committed(2, second)
    assert machine.schedule.run(lambda: bool(first.outcomes))
    assert partition.high_watermark == 1
    assert second.outcomes == []
    assert machine.schedule.run(lambda: bool(second.outcomes))
    assert partition.high_watermark == 2


def test_a_failed_flush_fails_waiters_and_later_appends() -> None:
    machine = SimulatedMachine(1)
    partition = create_replica(machine)
    waiter = Waiter()
    append(partition, machine)
    machine.disk.fails_syncs = True
    partition.when_committed(1, waiter)
    assert machine.schedule.run(lambda: bool(waiter.outcomes))
    (error,) = waiter.outcomes
    assert error is not None
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    machine.disk.fails_syncs = False
    with pytest.raises(KafkaError) as rejected:
        append(partition, machine)
    assert rejected.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.high_watermark == 0


def test_a_flush_without_descriptors_fails_no_waiter_of_the_next_flush(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = SimulatedMachine(1)
    partition = create_replica(machine)
    original = SimulatedFile.sync_later

    def refuse(self: SimulatedFile, done: Any) -> None:
        machine.schedule.soon(lambda: done(TooManyOpenFiles(self.path, "too many open files")))

    append(partition, machine)
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedFile, "sync_later", refuse)
        checkpoint: list[DiskError | None] = []
        partition.log.flush.when_flushed(checkpoint.append)
    end = append(partition, machine, is_awaited=True) + 1
    waiter = Waiter()
    partition.when_committed(end, waiter)
    assert SimulatedFile.sync_later is original
    machine.schedule.run_for(10)
    assert isinstance(checkpoint[0], TooManyOpenFiles)
    assert waiter.outcomes == [None]


def test_waiters_of_a_closed_replica_get_its_error() -> None:
    machine = SimulatedMachine(1)
    partition = create_replica(machine)
    waiter, reader = Waiter(), WaitingFetch()
    append(partition, machine)
    partition.when_committed(1, waiter)
    partition.watch(reader)
    partition.close(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert [outcome.code for outcome in waiter.outcomes if outcome] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
    assert reader.looks == 1
    machine.schedule.run_for(1_000)
    assert len(waiter.outcomes) == 1


@pytest.mark.parametrize(
    ("offset", "outcome"),
    [(-1, 4), (0, 0), (3, 3), (4, 4), (5, ErrorCode.OFFSET_OUT_OF_RANGE), (-2, None)],
)
def test_delete_records_moves_the_start_up_to_the_high_watermark(offset: int, outcome: Any) -> None:
    machine = SimulatedMachine(1)
    partition = create_replica(machine)
    for _ in range(4):
        append(partition, machine)
    machine.schedule.run_for(QUIET_FLUSH_MS + 1)
    if isinstance(outcome, ErrorCode) or outcome is None:
        with pytest.raises(KafkaError) as error:
            partition.delete_before(offset)
        assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    else:
        assert partition.delete_before(offset) == outcome
        assert partition.log.start_offset == outcome


def test_a_client_with_another_leader_epoch_is_rejected() -> None:
    machine = SimulatedMachine(1)
    partition = create_replica(machine)
    epoch = LeaderEpoch(partition.leader_epoch + 5)
    state = machine.broker.metadata.image.partition("t", 0)
    assert state is not None
    partition.lead(epoch, state._replace(leader_epoch=epoch))
    partition.check_epoch(-1)
    partition.check_epoch(partition.leader_epoch)
    with pytest.raises(KafkaError) as old:
        partition.check_epoch(partition.leader_epoch - 1)
    assert old.value.code is ErrorCode.FENCED_LEADER_EPOCH
    with pytest.raises(KafkaError) as new:
        partition.check_epoch(partition.leader_epoch + 1)
    assert new.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH
