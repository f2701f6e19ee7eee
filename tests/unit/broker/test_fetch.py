"""Fetch: waiting, visibility of records, size limits and errors."""

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from sawlog.simulation.simulated_broker import SimulatedMachine
from support.broker.requests import (
    NAMED,
    TOPIC,
    batch_of,
    fetch,
    machine_with_topic,
    produce,
    values,
)


def codes(response: object) -> list[int]:
    return [data.error_code for topic in response.responses for data in topic.partitions]  # type: ignore[attr-defined]


def filled(machine: SimulatedMachine, *batches: bytes) -> None:
    for value in batches:
        machine.ask(produce(batch_of(machine, value)), NAMED)


def test_unflushed_records_are_not_visible() -> None:
    machine = machine_with_topic()
    machine.send(produce(batch_of(machine, b"a"), acks=1), NAMED)
    response = machine.ask(fetch(0), NAMED)
    assert values(response) == [[]]
    assert response.responses[0].partitions[0].high_watermark == 0


def test_fetch_at_the_log_end_waits_for_records() -> None:
    machine = machine_with_topic()
    call = machine.send(fetch(0, max_wait_ms=5_000), NAMED)
    machine.schedule.run_for(100)
    assert not call.is_done
    machine.send(produce(batch_of(machine, b"a"), acks=1), NAMED)
    machine.schedule.run_for(1)
    assert call.is_done
    assert values(call.answered) == [[b"a"]]


def test_expired_fetch_has_an_empty_response() -> None:
    machine = machine_with_topic(partitions=2)
    call = machine.send(fetch(0, 0, max_wait_ms=500), NAMED)
    machine.schedule.run_for(499)
    assert not call.is_done
    machine.schedule.run_for(2)
    assert values(call.answered) == [[], []]


def test_min_bytes_counts_all_partitions() -> None:
    machine = machine_with_topic(partitions=2)
    size = len(batch_of(machine, b"x" * 100))
    call = machine.send(fetch(0, 0, max_wait_ms=60_000, min_bytes=2 * size), NAMED)
    machine.ask(produce(batch_of(machine, b"x" * 100)), NAMED)
    machine.schedule.run_for(1_000)
    assert not call.is_done
    machine.ask(produce(None, batch_of(machine, b"y" * 100)), NAMED)
    machine.schedule.run_for(1)
    assert values(call.answered) == [[b"x" * 100], [b"y" * 100]]


def test_min_bytes_beyond_max_bytes_does_not_delay() -> None:
    machine = machine_with_topic()
    filled(machine, b"a" * 1_000, b"b" * 1_000)
    limits = {"min_bytes": 1_500, "max_bytes": 1_400}
    call = machine.send(fetch(0, max_wait_ms=60_000, **limits), NAMED)
    assert call.is_done
    assert values(call.answered) == [[b"a" * 1_000]]


@pytest.mark.parametrize(("partition_max_bytes", "waits"), [(1 << 20, False), (10, True)])
def test_batch_that_does_not_fit_the_response_counts_as_available(
    partition_max_bytes: int, waits: bool
) -> None:
    """Up to the limit of its partition."""
    machine = machine_with_topic(partitions=2)
    machine.ask(produce(*[batch_of(machine, b"x" * 1_000)] * 2), NAMED)
    limits = {"min_bytes": 1_500, "max_bytes": 1_500, "partition_max_bytes": partition_max_bytes}
    call = machine.send(fetch(0, 0, max_wait_ms=60_000, **limits), NAMED)
    assert call.is_done is not waits
    machine.schedule.run_for(60_000)
    assert values(call.answered) == [[b"x" * 1_000], []]


def test_fetch_before_the_active_segment_does_not_wait() -> None:
    machine = machine_with_topic(configs={"segment.bytes": str(1 << 20)})
    filled(machine, *[b"x" * 400_000] * 3)
    bases = machine.broker.replicas.by_partition[TOPIC, 0].log.segments.base_offsets
    assert bases == [0, 2]
    waiting = {"max_wait_ms": 60_000, "min_bytes": 2_000_000, "max_bytes": 4_000_000}
    earlier = machine.send(fetch(1, **waiting), NAMED)
    assert earlier.is_done
    assert [len(found) for found in values(earlier.answered)] == [1]
    assert not machine.send(fetch(2, **waiting), NAMED).is_done


def test_parked_fetch_is_answered_when_the_log_rolls() -> None:
    machine = machine_with_topic(configs={"segment.bytes": str(1 << 20)})
    filled(machine, b"x" * 400_000)
    waiting = {"max_wait_ms": 60_000, "min_bytes": 4_000_000, "max_bytes": 4_000_000}
    call = machine.send(fetch(0, **waiting), NAMED)
    filled(machine, b"x" * 400_000)
    machine.schedule.run_for(1)
    assert not call.is_done
    filled(machine, b"x" * 400_000)
    machine.schedule.run_for(1)
    assert call.is_done


def test_first_batch_is_whole_whatever_its_size() -> None:
    machine = machine_with_topic()
    filled(machine, b"a" * 1_000, b"b")
    response = machine.ask(fetch(0, max_bytes=10, partition_max_bytes=10), NAMED)
    assert values(response) == [[b"a" * 1_000]]


def test_response_is_bounded_by_max_bytes() -> None:
    machine = machine_with_topic(partitions=3)
    for index in range(3):
        batches = [None] * index + [batch_of(machine, b"x" * 1_000)]
        machine.ask(produce(*batches), NAMED)
    size = len(batch_of(machine, b"x" * 1_000))
    response = machine.ask(fetch(0, 0, 0, max_bytes=size + 10), NAMED)
    assert [len(found) for found in values(response)] == [1, 0, 0]


def test_response_begins_with_the_batch_of_the_fetch_offset() -> None:
    machine = machine_with_topic()
    machine.ask(produce(batch_of(machine, b"a", b"b", b"c")), NAMED)
    machine.ask(produce(batch_of(machine, b"d")), NAMED)
    assert values(machine.ask(fetch(1), NAMED)) == [[b"a", b"b", b"c", b"d"]]
    assert values(machine.ask(fetch(3), NAMED)) == [[b"d"]]


@pytest.mark.parametrize("offset", [-1, 2, 99])
def test_offset_out_of_range_is_rejected_at_once(offset: int) -> None:
    machine = machine_with_topic()
    filled(machine, b"a")
    call = machine.send(fetch(offset, max_wait_ms=60_000), NAMED)
    assert call.is_done
    assert codes(call.answered) == [int(ErrorCode.OFFSET_OUT_OF_RANGE)]


def test_unknown_topics_and_partitions_are_rejected_one_by_one() -> None:
    machine = machine_with_topic()
    response = machine.ask(fetch(0, 0), NAMED)
    assert codes(response) == [0, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    response = machine.ask(fetch(0), 13)  # by an id of zeros
    assert codes(response) == [int(ErrorCode.UNKNOWN_TOPIC_ID)]


def test_parked_fetch_is_answered_when_its_topic_is_deleted() -> None:
    machine = machine_with_topic()
    call = machine.send(fetch(0, max_wait_ms=60_000), NAMED)
    state = DeleteTopicState(TOPIC)
    machine.ask(DeleteTopicsRequest(topics=[state], timeout_ms=10_000))
    machine.schedule.run_for(1)
    assert call.is_done
    assert codes(call.answered) == [int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_session_response_has_only_news() -> None:
    machine = machine_with_topic(partitions=2)
    filled(machine, b"a")
    full = machine.ask(fetch(0, 0, session_epoch=0), NAMED)
    assert full.session_id != 0
    assert values(full) == [[b"a"], []]
    ahead = fetch(1, session_id=full.session_id, session_epoch=1)
    assert machine.ask(ahead, NAMED).responses == []
    filled(machine, b"b")
    nothing_said = fetch(session_id=full.session_id, session_epoch=2)
    nothing_said.topics = []
    assert values(machine.ask(nothing_said, NAMED)) == [[b"b"]]


def test_wrong_leader_epoch_is_rejected() -> None:
    machine = machine_with_topic()
    request = fetch(0)
    epoch = machine.broker.replicas.by_partition[TOPIC, 0].leader_epoch
    request.topics[0].partitions[0].current_leader_epoch = epoch + 1
    assert codes(machine.ask(request, NAMED)) == [int(ErrorCode.UNKNOWN_LEADER_EPOCH)]


def test_diverging_epoch_is_returned_to_a_client_ahead_of_the_epoch() -> None:
    machine = machine_with_topic()
    filled(machine, b"a", b"b")
    machine.stop()
    machine.boot()
    filled(machine, b"c")
    request = fetch(3)
    request.topics[0].partitions[0].last_fetched_epoch = 0
    data = machine.ask(request, NAMED).responses[0].partitions[0]
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 2)


def test_flushed_offset_of_a_client_is_ignored() -> None:
    machine = machine_with_topic()
    machine.ask(produce(batch_of(machine, b"a", b"b")), NAMED)
    plain = machine.ask(fetch(0), NAMED)
    tagged = fetch(0)
    tagged.topics[0].partitions[0].flushed_offset = 1
    assert machine.ask(tagged, NAMED) == plain
    assert values(plain) == [[b"a", b"b"]]
