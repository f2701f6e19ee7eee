"""One replica on a simulated disk: what its watermark waits for, and who is told."""

from typing import Any

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sawlog.protocol.record_batch import check_produced
from sawlog.protocol.records import Record, build_batch
from sawlog.replication.partition import QUIET_FLUSH_MS, Partition
from sawlog.simulation.simulated_broker import SimulatedMachine


def replica(machine: SimulatedMachine, **configs: str) -> Partition:
    machine.boot()
    settings = [
        CreatableTopicConfig(name.replace("_", "."), value) for name, value in configs.items()
    ]
    topic = CreatableTopic("t", 1, 1, configs=settings)
    answer = machine.ask(CreateTopicsRequest([topic], timeout_ms=10_000))
    assert answer.topics[0].error_code == 0, answer
    return machine.broker.replicas.by_partition["t", 0]


def append(
    partition: Partition, machine: SimulatedMachine, count: int = 1, *, is_awaited: bool = False
) -> int:
    now_ms = machine.schedule.now_ms()
    batch = memoryview(build_batch([Record(0, now_ms, b"k", b"v", ())] * count))
    header = check_produced(batch, max_batch_bytes=1 << 20)
    return partition.append(batch, header, is_awaited=is_awaited).base_offset


class Told:
    """A waiter that remembers what it was told."""

    def __init__(self) -> None:
        self.outcomes: list[KafkaError | None] = []

    def __call__(self, error: KafkaError | None) -> None:
        self.outcomes.append(error)


class Watching:
    def __init__(self) -> None:
        self.looks = 0

    def look_again(self) -> None:
        self.looks += 1


def test_the_watermark_waits_for_the_flush() -> None:
    machine = SimulatedMachine(1)
    partition = replica(machine)
    append(partition, machine, 3)
    told = Told()
    partition.when_committed(3, told)
    assert partition.high_watermark == 0
    assert told.outcomes == []
    assert machine.schedule.run(lambda: bool(told.outcomes))
    assert told.outcomes == [None]
    assert partition.high_watermark == partition.log.flushed_offset == 3


def test_with_the_os_policy_the_watermark_is_the_end_of_the_log() -> None:
    machine = SimulatedMachine(1, flush_policy="os")
    partition = replica(machine)
    append(partition, machine, 3)
    assert partition.high_watermark == 3
    assert partition.log.flushed_offset == 0


def test_with_the_os_policy_the_flush_interval_in_messages_acts() -> None:
    machine = SimulatedMachine(1, flush_policy="os")
    partition = replica(machine, flush_messages="5")
    append(partition, machine, 4)
    machine.schedule.run_for(1_000)
    assert partition.log.flushed_offset == 0
    append(partition, machine, 1)
    machine.schedule.run_for(1)
    assert partition.log.flushed_offset == 5


def test_with_the_os_policy_the_flush_interval_in_time_acts() -> None:
    machine = SimulatedMachine(1, flush_policy="os")
    partition = replica(machine, flush_ms="500")
    append(partition, machine, 4)
    machine.schedule.run_for(499)
    assert partition.log.flushed_offset == 0
    machine.schedule.run_for(2)
    assert partition.log.flushed_offset == 4


def test_records_that_somebody_will_wait_for_are_flushed_at_once() -> None:
    machine = SimulatedMachine(1)
    partition = replica(machine)
    append(partition, machine, is_awaited=True)
    machine.schedule.run_for(QUIET_FLUSH_MS - 1)
    assert partition.high_watermark == 1


def test_records_that_nobody_waits_for_are_flushed_after_a_quiet_moment() -> None:
    machine = SimulatedMachine(1)
    partition = replica(machine)
    append(partition, machine)
    machine.schedule.run_for(QUIET_FLUSH_MS - 1)
    assert partition.high_watermark == 0
    machine.schedule.run_for(2)
    assert partition.high_watermark == 1


def test_a_reader_at_the_end_has_records_flushed_at_once_and_is_told() -> None:
    machine = SimulatedMachine(1)
    partition = replica(machine)
    reader = Watching()
    partition.watch(reader)
    append(partition, machine)
    machine.schedule.run_for(0)
    assert reader.looks == 1
    partition.unwatch(reader)
    append(partition, machine)
    machine.schedule.run_for(QUIET_FLUSH_MS + 1)
    assert reader.looks == 1


def test_what_is_written_during_a_flush_goes_with_the_next() -> None:
    machine = SimulatedMachine(1)
    partition = replica(machine)
    first, second = Told(), Told()
    append(partition, machine)
    partition.when_committed(1, first)
    append(partition, machine)
    partition.when_committed(2, second)
    assert machine.schedule.run(lambda: bool(first.outcomes))
    assert partition.high_watermark == 1
    assert second.outcomes == []
    assert machine.schedule.run(lambda: bool(second.outcomes))
    assert partition.high_watermark == 2


def test_a_failed_flush_fails_those_who_wait_and_every_later_append() -> None:
    machine = SimulatedMachine(1)
    partition = replica(machine)
    told = Told()
    append(partition, machine)
    machine.disk.fails_syncs = True
    partition.when_committed(1, told)
    assert machine.schedule.run(lambda: bool(told.outcomes))
    (error,) = told.outcomes
    assert error is not None
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    machine.disk.fails_syncs = False
    with pytest.raises(KafkaError) as refused:
        append(partition, machine)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.high_watermark == 0


def test_whoever_waits_for_a_replica_that_goes_away_is_told_why() -> None:
    machine = SimulatedMachine(1)
    partition = replica(machine)
    told, reader = Told(), Watching()
    append(partition, machine)
    partition.when_committed(1, told)
    partition.watch(reader)
    partition.close(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert [outcome.code for outcome in told.outcomes if outcome] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
    assert reader.looks == 1
    machine.schedule.run_for(1_000)
    assert len(told.outcomes) == 1


@pytest.mark.parametrize(
    ("offset", "outcome"),
    [(-1, 4), (0, 0), (3, 3), (4, 4), (5, ErrorCode.OFFSET_OUT_OF_RANGE), (-2, None)],
)
def test_deleting_records_moves_the_start_up_to_the_watermark(offset: int, outcome: Any) -> None:
    machine = SimulatedMachine(1)
    partition = replica(machine)
    for _ in range(4):
        append(partition, machine)
    machine.schedule.run_for(QUIET_FLUSH_MS + 1)
    if isinstance(outcome, ErrorCode) or outcome is None:
        with pytest.raises(KafkaError) as refused:
            partition.delete_before(offset)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    else:
        assert partition.delete_before(offset) == outcome
        assert partition.log.start_offset == outcome


def test_a_client_with_another_leader_epoch_is_refused() -> None:
    machine = SimulatedMachine(1)
    partition = replica(machine)
    partition.lead(partition.leader_epoch + 5, partition.in_sync)  # type: ignore[arg-type]
    partition.check_epoch(-1)
    partition.check_epoch(partition.leader_epoch)
    with pytest.raises(KafkaError) as old:
        partition.check_epoch(partition.leader_epoch - 1)
    assert old.value.code is ErrorCode.FENCED_LEADER_EPOCH
    with pytest.raises(KafkaError) as new:
        partition.check_epoch(partition.leader_epoch + 1)
    assert new.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH
