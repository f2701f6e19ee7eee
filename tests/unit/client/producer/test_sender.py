"""Which batches go into which request, and what their outcomes do. No socket."""

from collections.abc import Callable
from typing import Any

import pytest

from sawlog.client.errors import ClientError, ConnectionLost, RequestTimedOut
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.retries import Deadline
from sawlog.client.producer import sender as sender_module
from sawlog.client.producer.delivery import ProducedBatch
from sawlog.client.producer.sender import Sender
from sawlog.client.producer.sequence_numbers import SequenceNumbers, init_producer_id
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.protocol.compression import Codec
from sawlog.protocol.messages.produce_request import ProduceRequest
from sawlog.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    ProduceResponse,
)
from sawlog.protocol.record_batch import BatchHeader, check_produced
from support.client.fake_cluster import NO_LEADER, FakeCluster, FakeConnection
from support.client.producing_broker import answering

DELIVERY_TIMEOUT_MS = 120_000
BACKOFF_MS = 50


class Harness:
    """A sender with linger_ms=5 on a fake cluster, and its completed batches."""

    def __init__(self, *, acks: int = -1, max_request_bytes: int = 1 << 20, **leaders: list[int]):
        self.cluster = FakeCluster(**leaders)
        self.completed: list[ProducedBatch] = []
        sequences = SequenceNumbers(lambda: init_producer_id(self.cluster)) if acks else None
        self.sender = Sender(
            self.cluster,
            acks=acks,
            codec=Codec.NONE,
            linger_ms=5,
            max_request_bytes=max_request_bytes,
            sequences=sequences,
            on_complete=self.completed.append,
        )

    def add(self, partition: TopicPartition, records: int = 1, size: int = 1) -> ProducedBatch:
        """Queue a closed batch."""
        clock = self.cluster.clock
        deadline = Deadline(DELIVERY_TIMEOUT_MS, clock.seconds)
        batch = ProducedBatch(partition, 1, clock.ms, deadline)
        for _ in range(records):
            batch.builder.append(1, None, b"x" * size, ())
        batch.is_closed = True
        self.sender.accumulator.add(batch)
        return batch

    def run(self, after_ms: float = 0) -> None:
        self.cluster.clock.ms += after_ms
        self.sender.run_once()

    def answer(self, node: int, respond: Callable[[Any], ProduceResponse]) -> None:
        self.cluster.node(node).respond(respond)
        self.run()

    def fail(self, node: int, error: ClientError) -> None:
        self.cluster.node(node).lose(error)
        self.run()


LOGS_0, LOGS_1, LOGS_2 = (partition_of("logs", index) for index in range(3))


def headers(connection: FakeConnection) -> list[list[tuple[str, int, BatchHeader]]]:
    """Topic, partition and batch header of each batch, by request."""
    return [
        [
            (topic.name, data.index, check_produced(data.records, max_batch_bytes=1 << 26))
            for topic in request.topic_data
            for data in topic.partition_data
        ]
        for request in connection.requests
    ]


def places(connection: FakeConnection) -> list[list[tuple[str, int]]]:
    return [[(topic, index) for topic, index, _ in request] for request in headers(connection)]


def base_sequences(connection: FakeConnection) -> list[tuple[int, int]]:
    """Producer id and base sequence of the first batch of each request."""
    found = [request[0][2] for request in headers(connection)]
    return [(header.producer_id, header.base_sequence) for header in found]


def test_each_leader_gets_one_request_with_the_batches_of_its_partitions() -> None:
    harness = Harness(logs=[1, 2, 1], more=[2])
    for partition in (LOGS_0, LOGS_1, LOGS_2, partition_of("more", 0)):
        harness.add(partition)
    harness.run()
    assert places(harness.cluster.node(1)) == [[("logs", 0), ("logs", 2)]]
    assert places(harness.cluster.node(2)) == [[("logs", 1), ("more", 0)]]


def test_a_request_holds_at_most_max_request_bytes() -> None:
    harness = Harness(logs=[1, 1, 1], max_request_bytes=1_000)
    for partition in (LOGS_0, LOGS_1, LOGS_2):
        harness.add(partition, size=400)
    harness.run()
    assert places(harness.cluster.node(1)) == [[("logs", 0), ("logs", 1)], [("logs", 2)]]


def test_a_partition_has_one_batch_in_flight() -> None:
    harness = Harness(logs=[1])
    first, second = harness.add(LOGS_0, records=3), harness.add(LOGS_0)
    harness.run()
    harness.run()
    assert len(harness.cluster.node(1).requests) == 1
    harness.answer(1, answering())
    assert first.is_done
    assert not second.is_done
    assert base_sequences(harness.cluster.node(1)) == [(1_001, 0), (1_001, 3)]


def test_a_delivered_batch_has_the_offset_of_the_response() -> None:
    harness = Harness(logs=[1])
    batch = harness.add(LOGS_0)
    harness.run()
    harness.answer(1, answering(log_append_time_ms=77))
    assert (batch.base_offset, batch.append_time_ms, batch.error) == (100, 77, None)
    assert harness.completed == [batch]
    assert harness.sender.accumulator.is_empty


def test_acks_0_completes_a_batch_when_it_is_written() -> None:
    harness = Harness(acks=0, logs=[1])
    batch = harness.add(LOGS_0)
    harness.run()
    assert len(harness.cluster.node(1).unanswered) == 1
    assert harness.completed == [batch]
    assert (batch.base_offset, batch.error) == (-1, None)
    assert harness.cluster.producer_ids == 0


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_a_moved_partition_is_retried_at_its_new_leader_with_the_same_sequence(code: int) -> None:
    harness = Harness(logs=[1])
    batch = harness.add(LOGS_0)
    harness.run()
    harness.cluster.leaders["logs"] = [2]
    harness.answer(1, answering(code))
    assert not batch.is_done
    assert harness.cluster.node(2).requests == []
    harness.run(after_ms=BACKOFF_MS)
    assert harness.cluster.metadata_fetches == 2
    assert base_sequences(harness.cluster.node(2)) == base_sequences(harness.cluster.node(1))
    harness.answer(2, answering())
    assert harness.completed == [batch]


def test_later_batches_of_a_partition_wait_behind_a_retry() -> None:
    harness = Harness(logs=[1])
    first, second = harness.add(LOGS_0), harness.add(LOGS_0)
    harness.run()
    harness.answer(1, answering(ErrorCode.NOT_ENOUGH_REPLICAS))
    harness.run(after_ms=BACKOFF_MS)
    harness.answer(1, answering())
    harness.answer(1, answering())
    assert harness.completed == [first, second]
    assert base_sequences(harness.cluster.node(1)) == [(1_001, 0), (1_001, 0), (1_001, 1)]


def test_retry_backoff_doubles() -> None:
    harness = Harness(logs=[1])
    batch = harness.add(LOGS_0)
    waits: list[float] = []
    for _ in range(4):
        harness.run(after_ms=1_000)
        harness.answer(1, answering(ErrorCode.NOT_ENOUGH_REPLICAS))
        waits.append(batch.retry_at_ms - harness.cluster.clock.ms)
    for number, wait_ms in enumerate(waits):
        assert 25 * 2**number <= wait_ms <= 50 * 2**number


def test_a_duplicate_sequence_is_a_delivery_without_an_offset() -> None:
    harness = Harness(logs=[1])
    batch = harness.add(LOGS_0)
    harness.run()
    harness.answer(1, answering(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
    assert (batch.is_done, batch.error, batch.base_offset) == (True, None, -1)


def test_an_out_of_order_sequence_fails_and_the_next_batch_has_a_new_producer_id() -> None:
    harness = Harness(logs=[1])
    first, second = harness.add(LOGS_0), harness.add(LOGS_0)
    harness.run()
    harness.answer(1, answering(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    assert isinstance(first.error, KafkaError)
    assert first.error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not second.is_done
    assert base_sequences(harness.cluster.node(1)) == [(1_001, 0), (1_002, 0)]


def test_a_refused_record_fails_its_batch_with_the_records_message() -> None:
    harness = Harness(logs=[1])
    batch = harness.add(LOGS_0)
    harness.run()
    record_errors = [BatchIndexAndErrorMessage(0, "a record without a key")]
    harness.answer(1, answering(ErrorCode.INVALID_RECORD, record_errors=record_errors))
    assert "logs-0 refused a batch of" in str(batch.error)
    assert "a record without a key" in str(batch.error)


def test_a_batch_that_the_response_leaves_out_fails() -> None:
    harness = Harness(logs=[1])
    batch = harness.add(LOGS_0)
    harness.run()
    harness.answer(1, lambda _: ProduceResponse())
    assert "leaves out the batch of logs-0" in str(batch.error)


@pytest.mark.parametrize("error", [ConnectionLost("reset"), RequestTimedOut("too late")])
def test_a_request_without_a_response_is_retried_with_the_same_sequence(error: ClientError) -> None:
    harness = Harness(logs=[1, 1])
    batches = [harness.add(LOGS_0), harness.add(LOGS_1)]
    harness.run()
    harness.fail(1, error)
    harness.run(after_ms=BACKOFF_MS)
    first, second = harness.cluster.node(1).requests
    assert first.topic_data == second.topic_data
    harness.answer(1, answering())
    assert harness.completed == batches


def test_a_large_batch_whose_connection_is_lost_twice_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender_module, "_SUSPICIOUS_BYTES", 100)
    harness = Harness(logs=[1])
    batch = harness.add(LOGS_0, size=200)
    for _ in range(2):
        harness.run(after_ms=BACKOFF_MS)
        harness.fail(1, ConnectionLost("reset"))
    assert isinstance(batch.error, KafkaError)
    assert batch.error.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert "socket.request.max.bytes" in batch.error.message


def test_the_delivery_timeout_fails_a_batch_with_its_last_error() -> None:
    harness = Harness(logs=[1])
    batch = harness.add(LOGS_0)
    harness.run(after_ms=DELIVERY_TIMEOUT_MS - 1)
    harness.answer(1, answering(ErrorCode.NOT_ENOUGH_REPLICAS))
    assert isinstance(batch.error, KafkaError)
    assert batch.error.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert "not delivered within 120000 ms; last error: " in batch.error.message


def test_a_partition_without_a_leader_waits_and_the_others_are_sent() -> None:
    harness = Harness(logs=[NO_LEADER, 1])
    waiting = harness.add(LOGS_0)
    harness.add(LOGS_1)
    harness.run()
    assert places(harness.cluster.node(1)) == [[("logs", 1)]]
    assert not waiting.is_done
    assert waiting.sequence is None
    harness.cluster.leaders["logs"] = [2, 1]
    for _ in range(2):  # the first retry makes the metadata stale
        harness.run(after_ms=BACKOFF_MS * 2)
    assert places(harness.cluster.node(2)) == [[("logs", 0)]]


def test_a_round_tries_an_unreachable_cluster_once() -> None:
    harness = Harness(logs=[1], more=[1])
    harness.cluster.is_reachable = False
    first, second = harness.add(LOGS_0), harness.add(partition_of("more", 0))
    harness.run()
    assert first.retry_at_ms > harness.cluster.clock.ms
    assert second.retry_at_ms == 0


def test_topics_without_ids_are_sent_by_name() -> None:
    harness = Harness(logs=[1])
    harness.cluster.has_topic_ids = False
    batch = harness.add(LOGS_0)
    harness.run()
    ((_, pending),) = harness.cluster.node(1).in_flight
    assert pending.version == 12
    harness.answer(1, answering())
    assert batch.error is None


def test_the_next_wait_ends_with_linger_backoff_or_request_timeout() -> None:
    harness = Harness(logs=[1])
    batch = harness.add(LOGS_0)
    batch.is_closed = False
    assert harness.sender.next_wait() == ([], 5)
    assert harness.sender.next_wait(flushing=True) == ([], 0)
    harness.run(after_ms=5)
    descriptor = harness.cluster.node(1).fileno()
    assert harness.sender.next_wait() == ([descriptor], 1_000)
    harness.cluster.clock.ms += harness.cluster.request_timeout_ms + 400
    assert harness.sender.next_wait()[1] == pytest.approx(600)
    harness.cluster.node(1).is_open = False
    assert harness.sender.next_wait() == ([], 0)


def test_the_request_asks_for_acks_within_the_request_timeout() -> None:
    harness = Harness(logs=[1])
    harness.add(LOGS_0)
    harness.run()
    (request,) = harness.cluster.node(1).requests
    assert isinstance(request, ProduceRequest)
    assert (request.acks, request.timeout_ms) == (-1, 30_000)
