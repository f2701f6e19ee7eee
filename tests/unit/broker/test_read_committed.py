"""Fetch and ListOffsets with read_committed, and DescribeProducers."""

from typing import Any

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from sawlog.protocol.messages.describe_producers_request import (
    DescribeProducersRequest,
    TopicRequest,
)
from sawlog.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sawlog.protocol.record_batch import batches_in, read_header
from sawlog.protocol.records import Record, build_batch
from sawlog.replication.isolation_level import IsolationLevel
from sawlog.replication.replica import Replica
from sawlog.storage.append_origin import AppendOrigin
from support.broker.requests import NAMED, TOPIC, batch_of, fetch, machine_with_topic, produce

START_MS = 1_700_000_000_000
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


class TransactionalTopic:
    """A topic to which transactions are written without a transaction coordinator."""

    def __init__(self, **configs: str) -> None:
        self.machine = machine_with_topic(configs=configs)

    @property
    def replica(self) -> Replica:
        return self.machine.broker.replicas.by_partition[TOPIC, 0]

    def plain(self, *values: bytes) -> None:
        self.machine.ask(produce(batch_of(self.machine, *values)), NAMED)

    def send(self, producer_id: int, *values: bytes, sequence: int = 0) -> None:
        batch = build_batch(
            [Record(0, START_MS + producer_id, b"k", value) for value in values],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        guard = self.replica.log.begin_verification(
            producer_id, sequence, 0, supports_epoch_bump=False
        )
        self.replica.append(memoryview(batch), read_header(batch), guard=guard)
        self.flush()

    def end(self, producer_id: int, outcome: ControlType, *, flushes: bool = True) -> None:
        batch = marker_batch(EndTransactionMarker(outcome, 3), producer_id, 0, START_MS)
        self.replica.append(memoryview(batch), read_header(batch), origin=AppendOrigin.COORDINATOR)
        if flushes:
            self.flush()

    def flush(self) -> None:
        self.machine.schedule.run_for(200)

    def fetch(self, offset: int, **fields: Any) -> Any:
        request = fetch(offset, isolation_level=IsolationLevel.READ_COMMITTED, **fields)
        return self.machine.ask(request, NAMED).responses[0].partitions[0]

    def latest(self, timestamp: int = -1, *, isolation: int = 1) -> tuple[int, int]:
        request = ListOffsetsRequest(
            -1, isolation, [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=timestamp)])]
        )
        (found,) = self.machine.ask(request).topics[0].partitions
        return found.error_code, found.offset


def offsets(data: Any) -> list[int]:
    return [header.base_offset for _, header in batches_in(data.records)]


def aborted(data: Any) -> list[tuple[int, int]]:
    return [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions]


@pytest.fixture
def topic() -> TransactionalTopic:
    return TransactionalTopic()


def test_a_fetch_ends_at_the_last_stable_offset(topic: TransactionalTopic) -> None:
    topic.plain(b"a")
    topic.send(5, b"b", b"c")
    topic.plain(b"d")
    data = topic.fetch(0)
    assert (data.high_watermark, data.last_stable_offset) == (4, 1)
    assert (offsets(data), aborted(data)) == ([0], [])
    uncommitted = topic.machine.ask(fetch(0), NAMED).responses[0].partitions[0]
    assert offsets(uncommitted) == [0, 1, 3]
    assert uncommitted.aborted_transactions is None
    assert uncommitted.last_stable_offset == 1


def test_a_fetch_beyond_the_last_stable_offset_is_empty(topic: TransactionalTopic) -> None:
    topic.send(5, b"a", b"b")
    topic.plain(b"c")
    for offset in (0, 2, 3):
        data = topic.fetch(offset)
        assert (data.error_code, offsets(data), aborted(data)) == (0, [], [])
    assert topic.fetch(4).error_code == int(ErrorCode.OFFSET_OUT_OF_RANGE)


def test_a_fetch_names_the_aborted_transactions_of_its_records(topic: TransactionalTopic) -> None:
    topic.send(5, b"a")
    topic.send(6, b"b")
    topic.end(5, ABORT)
    topic.end(6, COMMIT)
    topic.send(7, b"c")
    topic.end(7, ABORT)
    data = topic.fetch(0)
    assert (offsets(data), aborted(data)) == ([0, 1, 2, 3, 4, 5], [(5, 0), (7, 4)])
    assert aborted(topic.fetch(3)) == [(7, 4)]


def test_a_bounded_fetch_names_only_transactions_near_it() -> None:
    topic = TransactionalTopic(**{"index.interval.bytes": "100"})
    for producer_id in range(20):
        topic.send(producer_id, b"x" * 200)
        topic.end(producer_id, ABORT)
    data = topic.fetch(0, max_bytes=300)
    assert offsets(data) == [0]
    assert (0, 0) in aborted(data)
    assert len(aborted(data)) <= 3


def test_a_parked_fetch_is_answered_when_the_transaction_ends(topic: TransactionalTopic) -> None:
    topic.send(5, b"a")
    request = fetch(0, isolation_level=1, max_wait_ms=60_000)
    call = topic.machine.send(request, NAMED)
    topic.plain(b"b")
    topic.flush()
    assert not call.is_done
    topic.end(5, COMMIT)
    assert call.is_done
    data = call.answered.responses[0].partitions[0]
    assert (offsets(data), data.last_stable_offset) == ([0, 1, 2], 3)


def test_an_uncommitted_marker_does_not_move_the_last_stable_offset(
    topic: TransactionalTopic,
) -> None:
    topic.send(5, b"a")
    topic.end(5, COMMIT, flushes=False)
    data = topic.fetch(0)
    assert (data.high_watermark, data.last_stable_offset, offsets(data)) == (1, 0, [])
    topic.flush()
    assert topic.fetch(0).last_stable_offset == 2


def test_latest_is_the_last_stable_offset(topic: TransactionalTopic) -> None:
    topic.plain(b"a")
    topic.send(5, b"b")
    assert topic.latest() == (0, 1)
    assert topic.latest(isolation=0) == (0, 2)
    topic.end(5, ABORT)
    assert topic.latest() == (0, 3)


def test_offsets_by_time_are_below_the_last_stable_offset(topic: TransactionalTopic) -> None:
    topic.send(5, b"a")
    assert topic.latest(START_MS + 5) == (0, -1)
    assert topic.latest(START_MS + 5, isolation=0) == (0, 0)
    assert topic.latest(-3) == (0, -1)
    topic.end(5, COMMIT)
    assert topic.latest(START_MS + 5) == (0, 0)
    assert topic.latest(-3) == (0, 0)


def test_producers_and_their_transactions_are_described(topic: TransactionalTopic) -> None:
    topic.send(5, b"a", b"b")
    topic.end(5, ABORT)
    topic.plain(b"c")
    topic.send(6, b"d", b"e", sequence=4)
    message = DescribeProducersRequest([TopicRequest(TOPIC, [0, 1]), TopicRequest("", [0])])
    response = topic.machine.ask(message)
    (found, missing), (invalid,) = (entry.partitions for entry in response.topics)
    assert [
        (
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            state.coordinator_epoch,
            state.current_txn_start_offset,
        )
        for state in found.active_producers
    ] == [(5, 0, 1, 3, -1), (6, 0, 5, -1, 4)]
    assert found.active_producers[0].last_timestamp > 0
    assert missing.error_code == int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert invalid.error_code == int(ErrorCode.INVALID_TOPIC_EXCEPTION)
