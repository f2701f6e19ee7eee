"""Fetches that name a replica: reading up to the log end, progress, fencing, wake-ups."""

from typing import Any

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import LeaderEpoch, NodeId
from sawlog.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sawlog.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sawlog.protocol.record_batch import batches_in
from sawlog.replication.replica import QUIET_FLUSH_MS, Replica
from sawlog.simulation.simulated_broker import SimulatedMachine
from support.broker.images import OTHER, THIRD, change_partition, join_brokers, replicate
from support.broker.replica_fetches import FollowerSession
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


def led(*isr: NodeId, **configs: str) -> tuple[SimulatedMachine, FollowerSession]:
    """A machine that leads a partition with this in-sync set, and the session of a follower."""
    machine = machine_with_topic(
        configs={name.replace("_", "."): value for name, value in configs.items()}
    )
    replicate(machine, *isr)
    return machine, FollowerSession(machine, OTHER)


def append(machine: SimulatedMachine, value: bytes = b"v", acks: int = 1) -> None:
    assert answers(machine.ask(produce(batch_of(machine, value), acks=acks), NAMED))[0][0] == 0


def offsets(data: Any) -> list[int]:
    """Return the base offsets of the batches of a response."""
    return [header.base_offset for _, header in batches_in(data.records)]


def watermark(machine: SimulatedMachine) -> int:
    return machine.broker.replicas.leader(TOPIC, 0).high_watermark


def test_a_follower_reads_up_to_the_log_end() -> None:
    machine, follower = led(OTHER)
    append(machine)
    append(machine)
    data = follower.ask(0)
    assert offsets(data) == [0, 1]
    assert data.high_watermark == 0
    assert values(machine.ask(fetch(0), NAMED)) == [[]]


def test_a_record_is_committed_when_the_follower_has_flushed_it() -> None:
    machine, follower = led(OTHER)
    call = machine.send(produce(batch_of(machine, b"a")), NAMED)
    machine.schedule.run_for(100)
    follower.ask(0, 0)
    follower.ask(1, 0)
    assert not call.is_done
    data = follower.ask(1, 1)
    assert answers(call.answered) == [(0, 0)]
    assert data.high_watermark == 1


def test_a_record_is_not_committed_before_the_leader_has_flushed_it() -> None:
    machine, follower = led(OTHER)
    call = machine.send(produce(batch_of(machine, b"a")), NAMED)
    follower.news(follower.send(0, 0))
    follower.send(1, 1)
    assert not call.is_done
    assert machine.schedule.run(lambda: call.is_done)
    assert answers(call.answered) == [(0, 0)]


def test_without_a_flushed_offset_nothing_is_committed() -> None:
    machine, follower = led(OTHER)
    append(machine)
    follower.ask(0)
    follower.ask(1)
    machine.schedule.run_for(1_000)
    assert watermark(machine) == 0


# Fencing


@pytest.mark.parametrize(
    ("difference", "code"),
    [
        (-1, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-6, ErrorCode.NONE),
    ],
)
def test_a_fetch_with_another_leader_epoch_changes_no_progress(
    difference: int, code: ErrorCode
) -> None:
    """A fetch without a leader epoch, -1, is answered, but it may be from an earlier epoch."""
    machine, follower = led(OTHER)
    change_partition(machine, leader_epoch=LeaderEpoch(5))
    append(machine)
    machine.schedule.run_for(1_000)
    data = follower.ask(1, 1, current_leader_epoch=5 + difference)
    assert data.error_code == int(code)
    assert watermark(machine) == 0


def test_a_diverging_fetch_changes_no_progress() -> None:
    """KAFKA-13141: the records below the fetch offset are not the leader's."""
    machine, follower = led(OTHER)
    append(machine)
    machine.schedule.run_for(1_000)
    epoch = machine.broker.replicas.leader(TOPIC, 0).leader_epoch
    change_partition(machine, leader_epoch=LeaderEpoch(epoch + 5))
    data = follower.ask(1, 1, last_fetched_epoch=epoch + 4)
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (epoch, 1)
    assert watermark(machine) == 0
    follower.ask(1, 1, last_fetched_epoch=epoch)
    assert watermark(machine) == 1


@pytest.mark.parametrize("offset", [2, 100])
def test_a_fetch_beyond_the_log_end_changes_no_progress(offset: int) -> None:
    machine, follower = led(OTHER)
    append(machine)
    machine.schedule.run_for(1_000)
    data = follower.ask(offset, offset)
    assert data.error_code == int(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert watermark(machine) == 0


def test_a_replica_outside_the_assignment_is_refused() -> None:
    machine, _ = led(OTHER)
    join_brokers(machine, NodeId(4))
    stranger = FollowerSession(machine, NodeId(4))
    assert stranger.ask(0, 0).error_code == int(ErrorCode.UNKNOWN_LEADER_EPOCH)
    data = FollowerSession(machine, NodeId(4)).ask(0, 0, current_leader_epoch=-1)
    assert data.error_code == int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_fetch_of_an_earlier_process_is_refused() -> None:
    machine, follower = led(OTHER)
    append(machine)
    machine.schedule.run_for(1_000)
    join_brokers(machine, OTHER, epoch=2_000)
    assert follower.ask(1, 1).error_code == int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert watermark(machine) == 0


def test_a_broker_that_does_not_lead_refuses_followers() -> None:
    machine, follower = led(OTHER)
    change_partition(machine, leader=THIRD, leader_epoch=LeaderEpoch(50))
    data = follower.ask(0, 0)
    assert data.error_code == int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


# Parked fetches


def test_a_parked_follower_wakes_on_the_log_end_and_a_consumer_on_the_watermark() -> None:
    machine, follower = led(OTHER)
    follower.ask(0, 0)
    parked = follower.send(0, 0, wait_ms=60_000)
    consumer = machine.send(fetch(0, max_wait_ms=60_000), NAMED)
    machine.schedule.run_for(100)
    assert not parked.is_done
    append(machine)
    assert machine.schedule.run(lambda: parked.is_done)
    assert offsets(follower.news(parked)) == [0]
    machine.schedule.run_for(100)
    assert not consumer.is_done
    follower.ask(1, 1)
    machine.schedule.run_for(100)
    assert values(consumer.answered) == [[b"v"]]


def test_a_parked_follower_learns_of_a_new_watermark() -> None:
    machine, follower = led(OTHER, THIRD)
    append(machine)
    machine.schedule.run_for(1_000)
    follower.ask(0, 0)
    follower.ask(1, 1)
    parked = follower.send(1, 1, wait_ms=60_000)
    machine.schedule.run_for(100)
    assert not parked.is_done
    FollowerSession(machine, THIRD).ask(1, 1)
    machine.schedule.run_for(1)
    assert follower.news(parked).high_watermark == 1


def test_a_flush_that_ends_while_a_fetch_is_parked_reaches_the_leader_at_once() -> None:
    machine, follower = led(OTHER)
    follower.ask(0, 0)
    call = machine.send(produce(batch_of(machine, b"a")), NAMED)
    machine.schedule.run_for(100)
    assert follower.ask(0, 0).is_awaited
    parked = follower.send(1, 0, wait_ms=60_000)
    machine.schedule.run_for(100)
    assert not parked.is_done
    after_flush = follower.send(1, 1, wait_ms=60_000)
    assert parked.is_done
    assert answers(call.answered) == [(0, 0)]
    assert follower.news(parked) is None
    assert follower.news(after_flush).high_watermark == 1


def test_a_superseded_fetch_has_no_records() -> None:
    """Both fetches have the same offset: the records belong to the second."""
    machine, follower = led(OTHER)
    follower.ask(0, 0)
    parked = follower.send(0, 0, wait_ms=60_000)
    machine.send(produce(batch_of(machine, b"a"), acks=1), NAMED)
    later = follower.send(0, 0, wait_ms=60_000)
    assert follower.news(parked) is None
    assert offsets(follower.news(later)) == [0]


def test_a_fetch_that_was_parked_reports_its_progress_only_once() -> None:
    machine, follower = led(OTHER)
    append(machine)
    machine.schedule.run_for(1_000)
    follower.ask(0, 0)
    parked = follower.send(1, 0, wait_ms=60_000)
    FollowerSession(machine, OTHER).ask(1, 1)
    append(machine)
    machine.schedule.run_for(1)
    assert parked.is_done
    leader = machine.broker.replicas.leader(TOPIC, 0).leader
    assert leader is not None
    assert leader.followers[OTHER].flushed_offset == 1


def test_the_first_fetch_of_a_follower_is_answered_at_once() -> None:
    """Without a session the follower could not report a flush behind it."""
    _, follower = led(OTHER)
    assert follower.send(0, 0, wait_ms=60_000).is_done


def test_a_follower_is_told_to_flush_when_a_request_begins_to_wait() -> None:
    machine, follower = led(OTHER)
    follower.ask(0, 0)
    append(machine)
    assert not follower.ask(0, 0).is_awaited
    parked = follower.send(1, 0, wait_ms=60_000)
    machine.schedule.run_for(2 * QUIET_FLUSH_MS)
    assert not parked.is_done
    machine.send(fetch(0, max_wait_ms=60_000), NAMED)
    machine.schedule.run_for(1)
    assert follower.news(parked).is_awaited
    again = follower.send(1, 0, wait_ms=60_000)
    machine.schedule.run_for(100)
    assert not again.is_done, "it was told once already"


def test_consumers_are_never_told_to_flush() -> None:
    machine, _ = led(OTHER)
    machine.send(produce(batch_of(machine, b"a")), NAMED)
    [topic] = machine.ask(fetch(0), NAMED).responses
    assert not topic.partitions[0].is_awaited


def test_a_parked_follower_is_answered_when_the_leader_is_deposed() -> None:
    machine, follower = led(OTHER)
    follower.ask(0, 0)
    parked = follower.send(0, 0, wait_ms=60_000)
    change_partition(machine, leader=OTHER, leader_epoch=LeaderEpoch(50))
    machine.schedule.run_for(1)
    assert follower.news(parked).error_code == int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


# Other requests


def test_list_offsets_of_a_follower_gives_the_log_end() -> None:
    machine, _ = led(OTHER)
    append(machine)
    topic = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=-1)])
    answer = machine.ask(ListOffsetsRequest(OTHER, 0, [topic]), 9)
    assert answer.topics[0].partitions[0].offset == 1


def test_list_offsets_does_not_wait_for_replicas_that_are_missing() -> None:
    machine, _ = led(min_insync_replicas="2")
    append(machine)
    topic = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=-1)])
    answer = machine.ask(ListOffsetsRequest(-1, 0, [topic]), 9)
    assert answer.topics[0].partitions[0].offset == 0


def delete_before(offset: int, timeout_ms: int = 10_000) -> DeleteRecordsRequest:
    topic = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, offset)])
    return DeleteRecordsRequest([topic], timeout_ms)


def result_of(answered: Any) -> tuple[int, int]:
    [result] = answered.topics[0].partitions
    return result.error_code, result.low_watermark


def test_deletion_waits_until_the_followers_have_deleted() -> None:
    machine, follower = led(OTHER)
    third = FollowerSession(machine, THIRD)
    append(machine)
    machine.schedule.run_for(1_000)
    follower.ask(1, 1)
    third.ask(1, 1)
    parked = follower.send(1, 1, wait_ms=60_000)
    call = machine.send(delete_before(1))
    machine.schedule.run_for(1)
    assert not call.is_done
    assert follower.news(parked).log_start_offset == 1
    follower.ask(1, 1, log_start_offset=1)
    assert not call.is_done
    third.ask(1, 1, log_start_offset=1)
    assert result_of(call.answered) == (0, 1)


def test_deletion_times_out_if_a_follower_does_not_delete() -> None:
    machine, follower = led(OTHER)
    append(machine)
    machine.schedule.run_for(1_000)
    follower.ask(1, 1)
    call = machine.send(delete_before(1))
    machine.schedule.run_for(10_000)
    assert result_of(call.answered)[0] == int(ErrorCode.REQUEST_TIMED_OUT)


# Sawlog's own tagged fields, which are for replicas only


def test_a_flushed_offset_from_a_consumer_is_ignored() -> None:
    machine, follower = led(OTHER)
    append(machine)
    machine.schedule.run_for(2 * QUIET_FLUSH_MS)  # the leader's own flush
    request = fetch(1)
    request.topics[0].partitions[0].flushed_offset = 1
    assert machine.ask(request, NAMED).responses[0].partitions[0].error_code == 0
    assert watermark(machine) == 0
    follower.ask(1, flushed=1)
    assert watermark(machine) == 1


@pytest.mark.parametrize(("replica", "reported"), [(-1, []), (-2, []), (int(OTHER), [0])])
def test_a_corrupt_offset_counts_from_a_replica_only(
    replica: int, reported: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, _ = led(OTHER)
    append(machine)
    found: list[int] = []
    monkeypatch.setattr(
        type(machine.broker.replicas),
        "corruption_reported",
        lambda _self, _replica, offset: found.append(offset),
    )
    partition = ListOffsetsPartition(0, timestamp=-2, corrupt_offset=0)
    request = ListOffsetsRequest(replica, topics=[ListOffsetsTopic(TOPIC, [partition])])
    response = machine.ask(request, 7)
    assert response.topics[0].partitions[0].error_code == 0
    assert found == reported


# Checks of in-sync sets


def test_an_error_of_one_replica_does_not_end_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machine_with_topic(replica_lag_time_max_ms="1000")
    replica = replicate(machine, OTHER)
    append(machine)
    check = type(replica).check_in_sync_set
    errors = [RuntimeError("one replica is broken")]

    def fail_once(checked: Replica) -> None:
        if errors:
            raise errors.pop()
        check(checked)

    monkeypatch.setattr(type(replica), "check_in_sync_set", fail_once)
    with pytest.raises(RuntimeError, match="one replica is broken"):
        machine.schedule.run_for(2_000)
    assert machine.broker.replicas.isr_totals.shrinks == 0
    machine.schedule.run_for(2_000)
    assert machine.broker.replicas.isr_totals.shrinks == 1, "the follower has fetched nothing"
