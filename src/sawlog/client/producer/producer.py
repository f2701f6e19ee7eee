"""A producer: records go into one batch per partition until it is full or has waited for
`linger_ms`; `sender` brings the batches to their leaders, `moving` says in whose thread.

With acks=all producing is idempotent: a record whose acknowledgement got lost is sent again and
stored once.
"""

import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self, overload

from sawlog.client.errors import ClientError, NoBrokerReachable
from sawlog.client.fork_guard import ForkGuard
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.client.net.metadata import Topic
from sawlog.client.net.retries import Backoff, Deadline, is_retriable
from sawlog.client.producer.delivery import Delivery, DeliveryFailed, ProducedBatch
from sawlog.client.producer.io_driver import IoDriver
from sawlog.client.producer.partitioner import StickyChoice, partition_for_key
from sawlog.client.producer.sender import Sender, now_ms
from sawlog.client.producer.sequence_numbers import SequenceNumbers
from sawlog.core.errors import KafkaError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.compression import Codec
from sawlog.protocol.record_batch import HEADER_SIZE
from sawlog.protocol.records import Headers

ALL_REPLICAS = -1
_RECORD_OVERHEAD_BYTES = 40  # the most that the numbers and lengths of a record take
_HEADER_OVERHEAD_BYTES = 10
_LAST_TIMESTAMP_MS = (1 << 63) - 1
_TOPIC_MAX_AGE_MS = 300_000  # then it may have grown, and keys go elsewhere
_ONE_TRY = Deadline(0)
_CLOSED = "the producer is closed"

Value = bytes | None


class Producer:
    """For any number of threads. What is sent goes out by itself after `linger_ms`; only `flush`,
    `close` or a Delivery tell that it arrived. As a context manager it is closed at the end, after
    an error without a flush.

    `cluster` is a Cluster, whose settings it takes over, or addresses of brokers.
    """

    def __init__(
        self,
        cluster: Cluster | str | Sequence[str],
        *,
        acks: int = ALL_REPLICAS,
        codec: Codec = Codec.NONE,
        idempotent: bool | None = None,
        batch_bytes: int = 128 * 1024,
        linger_ms: float = 5,
        buffer_bytes: int = 32 * 1024 * 1024,
        max_request_bytes: int = 1024 * 1024,
        delivery_timeout_ms: float = 120_000,
        create_topics: bool = False,
    ) -> None:
        if acks not in (0, 1, ALL_REPLICAS):
            raise ValueError(f"acks is 0, 1 or -1 (all), not {acks}")
        if idempotent and acks != ALL_REPLICAS:
            raise ValueError(f"an idempotent producer needs acks=all (-1), not {acks}")
        is_idempotent = acks == ALL_REPLICAS if idempotent is None else idempotent
        # One of its own: a cluster is for one thread, and ours may move at any time.
        self._cluster = cluster.sibling() if isinstance(cluster, Cluster) else Cluster(cluster)
        if isinstance(cluster, Cluster):
            cluster.close_with(self)
        self._fork_guard = ForkGuard()
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._buffer_bytes = buffer_bytes
        self._delivery_timeout_ms = delivery_timeout_ms
        self._create_topics = create_topics
        self._sender = Sender(
            self._cluster,
            acks=acks,
            codec=codec,
            linger_ms=linger_ms,
            max_request_bytes=max_request_bytes,
            sequences=SequenceNumbers(self._cluster) if is_idempotent else None,
            ended=self._batch_ended,
        )
        self._io_driver = IoDriver(self._sender, linger_ms)
        self._lock = self._io_driver.lock
        self._sticky: dict[str, StickyChoice] = {}
        self._buffered_bytes = 0
        self._next_round_ms = 0.0
        self._sent_count = 0
        self._failed_count = 0
        self._first_failed: tuple[int, Exception] | None = None
        self.delivered_count = 0
        weakref.finalize(self, self._cluster.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is None:
            self.close()
        else:
            self.abandon()

    @overload
    def send(
        self,
        topic: str,
        value: Value,
        key: bytes | None = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery: ...

    @overload
    def send(self, topic: str, value: Iterable[bytes]) -> list[Delivery]: ...

    def send(
        self,
        topic: str,
        value: Value | Iterable[bytes],
        key: bytes | None = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery | list[Delivery]:
        """Takes a record, or a set of messages (each a record's value); it goes out with its batch.

        Waits only where `buffer_bytes` are full, or for the metadata of a topic that is new, or was
        last looked at five minutes ago.
        """
        if value is not None and not isinstance(value, bytes):
            if not isinstance(value, bytearray | memoryview):
                return [self.send(topic, message) for message in _messages(value)]
            value = bytes(value)
        self._fork_guard.check("producer")
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        else:
            _check_time(timestamp_ms)
        if key is not None:
            key = _as_bytes("a key", key)
        headers = _as_headers(headers) if headers else ()
        with self._lock:
            if self._io_driver.is_stopped:
                raise ValueError(_CLOSED)
            where = self._choose_partition(topic, key, partition)
            batch = self._batch_for(where, _largest_size(key, value, headers))
            builder = batch.builder
            delivery = Delivery(batch, builder.count, self)
            size_before = builder.size
            builder.append(timestamp_ms, key, value, headers)
            if size_before == HEADER_SIZE:
                self._opened(batch)
            self._sent_count += 1
            self._buffered_bytes += builder.size - size_before
            if builder.size >= self._batch_bytes:
                self._close_batch(batch)
            self._move()
            has_room = self._has_room()
        if not has_room:
            self._io_driver.run_until(self._has_room)
        self._io_driver.run_callbacks()
        return delivery

    def flush(self, timeout_ms: float | None = None) -> None:
        """Waits until every record sent before has its outcome and its callback was called;
        DeliveryFailed where a record since the last flush was not delivered, TimeoutError where
        the time is up before (all that is under way goes on).
        """
        self._fork_guard.check("producer")
        with self._lock:
            left = self._sender.incomplete_batches()

        def are_done() -> bool:
            while left and left[-1].is_done:
                left.pop()
            return not left

        self._flush(are_done, timeout_ms)

    def _flush(self, is_done: Callable[[], bool], timeout_ms: float | None) -> None:
        if not self._io_driver.run_until(is_done, timeout_ms):
            raise TimeoutError(f"not all records had an outcome after {timeout_ms} ms")
        self._io_driver.run_callbacks(wait=True)
        with self._lock:
            count, first = self._failed_count, self._first_failed
            self._failed_count, self._first_failed = 0, None
        if first is not None:
            number, error = first
            raise DeliveryFailed(count, error, number)

    def close(self, timeout_ms: float | None = None) -> None:
        """Flushes all, what callbacks send included, and ends, also where that raises; what is not
        delivered by then is lost.
        """
        try:
            if self._fork_guard.is_same_process and not self._io_driver.is_stopped:
                self._flush(lambda: self._sender.is_idle, timeout_ms)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Ends at once: what was not delivered yet may or may not arrive."""
        if not self._fork_guard.is_same_process:
            return  # it goes on where it was made
        self._io_driver.stop()
        with self._lock:
            self._cluster.close()
        self._io_driver.close()

    @property
    def has_failed(self) -> bool:
        """Whether the next flush will say that records were not delivered."""
        return self._first_failed is not None

    def wait_for(self, batch: ProducedBatch, timeout_ms: float | None) -> None:
        """For a Delivery."""
        self._fork_guard.check("producer")
        if not self._io_driver.run_until(lambda: batch.is_done, timeout_ms):
            raise TimeoutError(f"{batch.partition}: no outcome after {timeout_ms} ms")
        self._io_driver.run_callbacks()

    def call_when_done(self, batch: ProducedBatch, callback: Callable[[], None]) -> None:
        """For a Delivery."""
        with self._lock:
            if not batch.is_done:
                batch.callbacks.append(callback)
                return
            self._io_driver.queue_callbacks([callback])
        self._io_driver.run_callbacks()

    # Under the lock, all that follows

    def _batch_ended(self, batch: ProducedBatch) -> None:
        if batch.callbacks:
            self._io_driver.queue_callbacks(batch.callbacks)
            batch.callbacks = []
        self._buffered_bytes -= batch.builder.size
        if batch.error is None:
            self.delivered_count += batch.builder.count
        else:
            self._failed_count += batch.builder.count
            if self._first_failed is None or batch.number < self._first_failed[0]:
                self._first_failed = (batch.number, batch.error)

    def _has_room(self) -> bool:
        return self._buffered_bytes <= self._buffer_bytes

    def _choose_partition(
        self, name: str, key: bytes | None, partition: int | None
    ) -> TopicPartition:
        try:
            topic = self._ask_for(name, partition)
        except (KafkaError, ClientError) as error:
            topic = self._keep_asking_for(name, partition, error)
        if partition is not None:
            if partition not in topic.partitions:
                raise NoSuchTopic(
                    f"the topic {name!r} has the partitions 0 to {len(topic.partitions) - 1},"
                    f" not {partition!r}"
                )
            index = partition
        elif key is not None:
            index = partition_for_key(key, len(topic.partitions))
        else:
            sticky = self._sticky.get(name)
            if sticky is None:
                sticky = self._sticky[name] = StickyChoice()
            index = sticky.partition(list(topic.partitions))
        return TopicPartition(TopicName(name), PartitionIndex(index))

    def _ask_for(self, name: str, partition: int | None) -> Topic:
        return self._cluster.topic(
            name,
            create_missing=self._create_topics,
            deadline=_ONE_TRY,
            with_partition=partition,
            max_age_ms=_TOPIC_MAX_AGE_MS,
        )

    def _keep_asking_for(self, name: str, partition: int | None, error: Exception) -> Topic:
        """For a topic that is new, as long as the cluster's time-out says; between two tries others
        have the lock.
        """
        deadline, backoff = self._cluster.deadline(), Backoff()
        is_there = self._cluster.was_reached or not isinstance(error, NoBrokerReachable)
        while is_there and is_retriable(error):
            wait_ms = backoff.next_ms()
            if wait_ms >= deadline.remaining_ms:
                break
            self._io_driver.pause(wait_ms)
            if self._io_driver.is_stopped:
                raise ValueError(_CLOSED)
            try:
                return self._ask_for(name, partition)
            except (KafkaError, ClientError) as again:
                error = again
        raise error

    def _batch_for(self, where: TopicPartition, size: int) -> ProducedBatch:
        """The open batch of the partition, or a new one where the record does not fit."""
        batch = self._sender.open_batch(where)
        if batch is not None:
            if batch.builder.size + size <= self._batch_bytes:
                return batch
            self._close_batch(batch)
        deadline = Deadline(self._delivery_timeout_ms)
        return ProducedBatch(where, self._sent_count + 1, now_ms(), deadline)

    def _opened(self, batch: ProducedBatch) -> None:
        """It has its first record: none goes out, or is waited for, without any."""
        self._next_round_ms = min(self._next_round_ms, batch.opened_ms + self._linger_ms)
        self._sender.add(batch)
        self._buffered_bytes += HEADER_SIZE
        self._io_driver.wake()

    def _close_batch(self, batch: ProducedBatch) -> None:
        batch.is_full = True
        self._next_round_ms = 0.0
        sticky = self._sticky.get(batch.partition.topic)
        if sticky is not None:
            sticky.batch_is_full(batch.partition.partition)

    def _move(self) -> None:
        """Data moves when a batch is full or has waited."""
        now = now_ms()
        if now >= self._next_round_ms:
            self._io_driver.run_round(now)
            self._next_round_ms = now + self._linger_ms


def _largest_size(key: bytes | None, value: Value, headers: Headers) -> int:
    size = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += len(name) * 4 + len(content or b"") + _HEADER_OVERHEAD_BYTES
    return size


# What cannot be in a batch is refused before there is one: its neighbours must not suffer.


def _as_bytes(what: str, content: object) -> bytes:
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise TypeError(f"{what} is bytes, not {type(content).__name__}: encode it first")


def _as_headers(headers: object) -> Headers:
    if isinstance(headers, Mapping) or not isinstance(headers, Iterable):
        raise TypeError(
            f'headers are pairs such as [("trace", b"17")], not a {type(headers).__name__}'
        )
    pairs: list[tuple[str, bytes | None]] = []
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            raise TypeError(f'a header is a pair such as ("trace", b"17"), not {header!r:.100}')
        name, content = header
        if not isinstance(name, str):
            raise TypeError(f"a header's name is a string, not {type(name).__name__}")
        name.encode()  # half of a surrogate pair has no bytes
        pairs.append((name, None if content is None else _as_bytes("a header's value", content)))
    return tuple(pairs)


def _check_time(timestamp_ms: object) -> None:
    if not isinstance(timestamp_ms, int):
        raise TypeError(f"timestamp_ms is a whole number, not {type(timestamp_ms).__name__}")
    if not 0 <= timestamp_ms <= _LAST_TIMESTAMP_MS:
        raise ValueError(f"timestamp_ms is in milliseconds since 1970, not {timestamp_ms}")


def _messages(values: object) -> Iterable[bytes]:
    """A set of messages; what is likely to be meant as a single one is refused."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"a value is bytes, not {type(values).__name__}: encode it first")
    return values
