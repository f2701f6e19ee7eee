"""A follower's fetch reads only the partitions of its session that may have changed."""

from collections.abc import Callable

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import LeaderEpoch
from sawlog.core.ports import DiskError
from sawlog.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sawlog.protocol.record_batch import check_produced
from sawlog.replication.follower_progress import FollowerProgress
from sawlog.replication.replica import Replica
from sawlog.simulation.simulated_broker import SimulatedMachine
from sawlog.storage.log import Log
from support.broker.follower_model import FollowerModel
from support.broker.images import OTHER, THIRD, change_partition, join_brokers, replicate
from support.broker.requests import NAMED, TOPIC, answers, batch_of, machine_with_topic, produce

PARTITIONS = 20


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions whose logs were read, in order."""
    found: list[int] = []
    original = Log.read

    def counted(log: Log, *arguments: object, **options: object) -> object:
        found.append(log.tp.partition)
        return original(log, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Log, "read", counted)
    return found


def led(partitions: int = PARTITIONS, **settings: str) -> tuple[SimulatedMachine, FollowerModel]:
    """A machine that leads partitions with a follower in sync, and that follower, caught up."""
    machine = machine_with_topic(partitions, **settings)
    for index in range(partitions):
        replicate(machine, OTHER, index=index)
    machine.schedule.run_for(1_000)
    follower = FollowerModel(machine, OTHER, partitions)
    follower.settle()
    follower.fetch()
    return machine, follower


def replica(machine: SimulatedMachine, index: int) -> Replica:
    return machine.broker.replicas.leader(TOPIC, index)


def progress(machine: SimulatedMachine, index: int) -> FollowerProgress:
    leader = replica(machine, index).leader
    assert leader is not None
    return leader.followers[OTHER]


def append(machine: SimulatedMachine, index: int, *, acks: int = 1) -> None:
    batches = [None] * index + [batch_of(machine, b"v")]
    request = produce(*batches, acks=acks)
    request.topic_data[0].partition_data = request.topic_data[0].partition_data[-1:]
    assert answers(machine.ask(request, NAMED))[0][0] == 0


def append_now(machine: SimulatedMachine, index: int) -> None:
    """Append within the present event."""
    batch = memoryview(bytearray(batch_of(machine, b"v")))
    replica(machine, index).append(batch, check_produced(batch, max_batch_bytes=1 << 20))


# What is read


def test_a_fetch_of_settled_partitions_reads_none(read: list[int]) -> None:
    _, follower = led()
    read.clear()
    assert follower.fetch() == {}
    assert read == []


def test_a_fetch_reads_the_partitions_that_changed(read: list[int]) -> None:
    machine, follower = led()
    append(machine, 3)
    append(machine, 7)
    read.clear()
    assert sorted(follower.fetch()) == [3, 7]
    assert read == [3, 7]


def test_a_parked_fetch_reads_the_partition_that_woke_it(read: list[int]) -> None:
    machine, follower = led()
    parked = follower.send(wait_ms=60_000)
    read.clear()
    append(machine, 5)
    machine.schedule.run_for(1)
    assert list(follower.take(parked)) == [5]
    assert set(read) == {5}


def test_a_partition_is_read_until_it_is_committed_and_told(read: list[int]) -> None:
    machine, follower = led()
    append(machine, 4)
    machine.schedule.run_for(1_000)
    assert follower.fetch()[4][4] == [0]
    follower.flush()
    assert follower.fetch()[4][1] == 1
    read.clear()
    assert follower.fetch() == {}
    assert read == [4]
    read.clear()
    follower.fetch()
    assert read == []


def test_a_follower_outside_the_in_sync_set_is_read_again_until_it_is_inside(
    read: list[int],
) -> None:
    machine, follower = led()
    state = machine.broker.metadata.image.partition(TOPIC, 2)
    assert state is not None
    change_partition(
        machine, index=2, isr=(1,), members=(), partition_epoch=state.partition_epoch + 1
    )
    for _ in range(3):
        read.clear()
        follower.fetch()
        assert read == [2]
    replicate(machine, OTHER, index=2)
    follower.fetch()
    read.clear()
    follower.fetch()
    assert read == []


def test_a_partition_with_records_that_are_not_committed_is_read_by_every_fetch(
    read: list[int],
) -> None:
    """A fetch commits them once a third replica that is about to join was away for too long."""
    machine, follower = led()
    replicate(machine, OTHER, THIRD, index=6)
    append(machine, 6)
    machine.schedule.run_for(1_000)
    follower.fetch()
    follower.flush()
    for _ in range(3):
        read.clear()
        follower.fetch()
        assert read == [6]


# What makes a settled partition be read again


def delete_records(machine: SimulatedMachine) -> None:
    topic = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(1, 1)])
    machine.send(DeleteRecordsRequest([topic], 10_000))


def expire_records(machine: SimulatedMachine) -> None:
    machine.schedule.run_for(400_000)


def elect_again(machine: SimulatedMachine) -> None:
    change_partition(machine, index=1, leader_epoch=LeaderEpoch(50))


def change_replicas(machine: SimulatedMachine) -> None:
    change_partition(machine, index=1, replicas=(1, THIRD))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (delete_records, ErrorCode.NONE),
        (expire_records, ErrorCode.NONE),
        (elect_again, ErrorCode.FENCED_LEADER_EPOCH),
        (change_replicas, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_change_of_a_settled_partition_is_told(
    change: Callable[[SimulatedMachine], None], error: ErrorCode
) -> None:
    machine = machine_with_topic(
        3, {"retention.ms": "1000"}, log_retention_check_interval_ms="300000"
    )
    for index in range(3):
        replicate(machine, OTHER, index=index)
    append(machine, 1)
    machine.schedule.run_for(1_000)
    follower = FollowerModel(machine, OTHER, 3)
    follower.settle()
    follower.fetch()
    request = follower.request(wait_ms=1_000_000)
    parked = machine.send(request, 17)
    change(machine)
    machine.schedule.run_for(1)
    news = follower.take(parked)
    assert list(news) == [1]
    assert news[1][0] == int(error)
    if error is ErrorCode.NONE:
        assert news[1][2] == 1


def test_a_registration_of_another_process_refuses_all_partitions_of_the_old_one() -> None:
    machine, follower = led()
    join_brokers(machine, OTHER, epoch=2_000)
    news = follower.fetch()
    assert len(news) == PARTITIONS
    assert {data[0] for data in news.values()} == {int(ErrorCode.NOT_LEADER_OR_FOLLOWER)}


def test_a_new_broker_epoch_in_the_session_reports_all_partitions(read: list[int]) -> None:
    machine, follower = led()
    join_brokers(machine, OTHER, epoch=2_000)
    follower.broker_epoch = 2_000
    read.clear()
    follower.fetch()
    assert sorted(read) == list(range(PARTITIONS))
    assert progress(machine, 0).broker_epoch == 2_000


def test_an_offline_directory_refuses_all_partitions() -> None:
    machine, follower = led()
    machine.broker.components.directory.fail(DiskError("data", "broken"))
    news = follower.fetch()
    assert len(news) == PARTITIONS
    assert {data[0] for data in news.values()} == {int(ErrorCode.KAFKA_STORAGE_ERROR)}


def test_an_append_while_the_fetch_is_read_is_not_missed() -> None:
    """The progress that a fetch reports ends a deletion, and an append to a partition that this
    fetch does not read follows at once."""
    machine, follower = led()
    append(machine, 9)
    machine.schedule.run_for(1_000)
    follower.settle()
    deleting = replica(machine, 9)
    deleting.delete_before(1)
    deleting.when_deleted(1, lambda _: append_now(machine, 3))
    deleting.leader.followers.pop(THIRD)  # type: ignore[union-attr]
    assert follower.fetch()[9][2] == 1
    parked = follower.send(wait_ms=60_000)
    assert not parked.is_done
    machine.schedule.run_for(1)
    assert follower.take(parked)[3][4] == [0]


# The time of the last fetch


def test_the_fetches_of_a_settled_follower_show_that_it_is_caught_up() -> None:
    machine, follower = led()
    for _ in range(3):
        machine.schedule.run_for(20_000)
        follower.fetch()
    fetched_ms = machine.schedule.monotonic_ms()
    machine.schedule.run_for(5_000)
    append(machine, 3)
    assert progress(machine, 3).caught_up_ms == fetched_ms
    machine.schedule.run_for(1_000)
    follower.fetch()
    assert progress(machine, 3).caught_up_ms == fetched_ms, "it has not fetched the record yet"
    assert progress(machine, 4).caught_up_ms == machine.schedule.monotonic_ms()


def test_a_partition_that_left_the_session_is_not_counted_by_its_fetches() -> None:
    machine, follower = led()
    fetched_ms = machine.schedule.monotonic_ms()
    machine.schedule.run_for(1_000)
    follower.paused.add(3)
    follower.fetch()
    machine.schedule.run_for(1_000)
    follower.fetch()
    assert progress(machine, 3).caught_up_ms == fetched_ms
    assert progress(machine, 4).caught_up_ms == fetched_ms + 2_000


def test_an_earlier_session_does_not_count_for_another_process() -> None:
    machine, follower = led()
    join_brokers(machine, OTHER, epoch=2_000)
    again = FollowerModel(machine, OTHER, PARTITIONS, broker_epoch=2_000)
    again.fetch()
    began_ms = progress(machine, 3).caught_up_ms
    machine.schedule.run_for(1_000)
    follower.fetch()
    append(machine, 3)
    assert progress(machine, 3).caught_up_ms == began_ms


# Fairness and release


def test_partitions_take_turns_when_a_response_has_room_for_one() -> None:
    machine, follower = led(4)
    for _ in range(3):
        for index in range(4):
            append(machine, index)
    served = [
        [index for index, data in follower.fetch(max_bytes=1).items() if data[4]] for _ in range(12)
    ]
    assert served == [[0], [1], [2], [3]] * 3


def test_a_session_that_ends_releases_its_replicas() -> None:
    machine, follower = led(3)
    again = FollowerModel(machine, OTHER, 3)
    again.session_id = follower.session_id
    again.fetch()
    again.fetch()
    assert [len(replica(machine, index)._log_end_listeners) for index in range(3)] == [1, 1, 1]


def test_a_session_without_a_parked_fetch_is_called_once_by_a_replica() -> None:
    machine, _ = led(3)
    append(machine, 1)
    assert [len(replica(machine, index)._log_end_listeners) for index in range(3)] == [1, 0, 1]
