"""When records are batched, sent and counted by a producer on a fake cluster. No socket.

`linger_ms` is so long that the background thread has nothing to send during a test.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sawlog.client.net.cluster import NoSuchTopic
from sawlog.client.producer.delivery import DeliveryFailed
from sawlog.client.producer.producer import Producer
from sawlog.core.errors import ErrorCode
from sawlog.protocol.records import iterate
from support.client.fake_cluster import FakeCluster
from support.client.producing_broker import answering


@contextmanager
def producer_on(cluster: FakeCluster, **settings: Any) -> Iterator[Producer]:
    producer = Producer(cluster, linger_ms=600_000, **settings)
    try:
        yield producer
    finally:
        producer.abandon()


def sent(cluster: FakeCluster, node: int = 1) -> list[tuple[int, list[bytes | None]]]:
    """Partition and values of each batch sent to a node."""
    return [
        (data.index, [r.value for r in iterate(data.records, max_decompressed_bytes=1 << 20)])
        for request in cluster.node(node).requests
        for topic in request.topic_data
        for data in topic.partition_data
    ]


def respond(cluster: FakeCluster, respond: Callable[[Any], Any], node: int = 1) -> None:
    cluster.node(node).respond(respond)


def test_records_wait_until_their_batch_is_full() -> None:
    cluster = FakeCluster(logs=[1])
    with producer_on(cluster, batch_bytes=400) as producer:
        producer.send("logs", b"a" * 100)
        producer.send("logs", b"b" * 100)
        assert sent(cluster) == []
        producer.send("logs", b"c" * 100)  # does not fit any more: the batch before it is sent
        assert sent(cluster) == [(0, [b"a" * 100, b"b" * 100])]


def test_a_batch_of_exactly_batch_bytes_is_sent_at_once() -> None:
    cluster = FakeCluster(logs=[1])
    with producer_on(cluster, batch_bytes=300) as producer:
        producer.send("logs", b"a" * 1_000)  # larger than any batch: alone in its own
        assert sent(cluster) == [(0, [b"a" * 1_000])]


def test_each_partition_has_a_batch_of_its_own() -> None:
    cluster = FakeCluster(logs=[1, 2])
    with producer_on(cluster, batch_bytes=200) as producer:
        producer.send("logs", b"a", partition=0)
        producer.send("logs", b"b" * 300, partition=1)
        assert sent(cluster, 1) == []
        assert sent(cluster, 2) == [(1, [b"b" * 300])]


def test_records_without_a_key_move_to_another_partition_with_a_full_batch() -> None:
    cluster = FakeCluster(logs=[1, 1])
    with producer_on(cluster, batch_bytes=200) as producer:
        first = producer.send("logs", b"a" * 300)
        second = producer.send("logs", b"b" * 300)
        assert {first._batch.partition.partition, second._batch.partition.partition} == {0, 1}


def test_an_unknown_partition_is_refused_and_nothing_is_batched() -> None:
    cluster = FakeCluster(logs=[1])
    with producer_on(cluster) as producer:
        with pytest.raises(NoSuchTopic, match="partitions 0 to 0, not 4"):
            producer.send("logs", b"a", partition=4)
        with pytest.raises(NoSuchTopic):
            producer.send("missing", b"a")
        producer.flush(0)


def test_flush_raises_the_first_failure_and_counts_all_failed_records() -> None:
    cluster = FakeCluster(logs=[1, 1])
    with producer_on(cluster, batch_bytes=200) as producer:
        producer.send("logs", b"a" * 300, partition=0)
        producer.send("logs", b"b" * 300, partition=1)
        for _ in range(2):
            respond(cluster, answering(ErrorCode.MESSAGE_TOO_LARGE))
        with pytest.raises(DeliveryFailed) as failed:
            producer.flush(0)
        assert (failed.value.count, failed.value.first_number) == (2, 1)
        producer.flush(0)  # reported once


def test_flush_times_out_while_a_response_is_missing() -> None:
    cluster = FakeCluster(logs=[1])
    with producer_on(cluster) as producer:
        delivery = producer.send("logs", b"a")
        with pytest.raises(TimeoutError):
            producer.flush(0)
        assert sent(cluster) == [(0, [b"a"])]
        respond(cluster, answering())
        assert delivery.result(0).offset == 100
        assert producer.delivered_count == 1


def test_a_record_has_its_index_added_to_the_base_offset() -> None:
    cluster = FakeCluster(logs=[1])
    with producer_on(cluster) as producer:
        deliveries = producer.send("logs", [b"a", b"b", b"c"])
        with pytest.raises(TimeoutError):
            producer.flush(0)
        respond(cluster, answering())
        assert [each.result(0).offset for each in deliveries] == [100, 101, 102]


def test_callbacks_run_in_record_order() -> None:
    cluster = FakeCluster(logs=[1])
    called: list[int] = []
    with producer_on(cluster) as producer:
        for number in range(3):
            delivery = producer.send("logs", b"a")
            delivery.add_done_callback(lambda _, number=number: called.append(number))
        with pytest.raises(TimeoutError):
            producer.flush(0)
        assert called == []
        respond(cluster, answering())
        producer.flush(0)
        assert called == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"value": "text"}, "a value must be bytes, not str"),
        ({"value": b"", "key": "k"}, "a key must be bytes, not str"),
        ({"value": b"", "headers": {"a": b""}}, "headers must be pairs"),
        ({"value": b"", "headers": [("a", "b")]}, "a header's value must be bytes, not str"),
        ({"value": b"", "timestamp_ms": 1.5}, "timestamp_ms must be an integer, not float"),
    ],
)
def test_an_invalid_record_is_refused_before_it_reaches_a_batch(
    arguments: dict[str, Any], message: str
) -> None:
    cluster = FakeCluster(logs=[1])
    with producer_on(cluster) as producer:
        with pytest.raises(TypeError, match=message):
            producer.send("logs", **arguments)
        producer.flush(0)
        assert sent(cluster) == []


def test_acks_and_idempotence_have_to_agree() -> None:
    with pytest.raises(ValueError, match="acks is 0, 1 or -1"):
        Producer("fake:1", acks=2)
    with pytest.raises(ValueError, match="an idempotent producer needs acks=all"):
        Producer("fake:1", acks=1, idempotent=True)
