"""A producer without a thread of its own: the caller's calls move the data.

Records gather in one batch per partition until it is full or has waited for `linger_ms`; `sender`
brings the batches to their leaders. With acks=all producing is idempotent: a record whose
acknowledgement got lost is sent again and stored once.
"""

import time
from typing import Self

from sawlog.client.cluster import Cluster, NoSuchTopic
from sawlog.client.delivery import Delivery, DeliveryFailed, ProducedBatch
from sawlog.client.partitioner import StickyChoice, partition_for_key
from sawlog.client.retries import Deadline
from sawlog.client.sender import Sender, now_ms
from sawlog.client.sequences import Sequences
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.compression import Codec
from sawlog.protocol.records import Headers

ALL_REPLICAS = -1
_RECORD_OVERHEAD_BYTES = 40  # the most that the numbers and lengths of a record take
_HEADER_OVERHEAD_BYTES = 10


class Producer:
    """For one thread. Leave it by `flush` or as a context manager: what was not flushed is lost."""

    def __init__(
        self,
        cluster: Cluster,
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
        self._cluster = cluster
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._buffer_bytes = buffer_bytes
        self._delivery_timeout_ms = delivery_timeout_ms
        self._create_topics = create_topics
        self._sender = Sender(
            cluster,
            acks=acks,
            codec=codec,
            linger_ms=linger_ms,
            max_request_bytes=max_request_bytes,
            sequences=Sequences(cluster) if is_idempotent else None,
            ended=self._batch_ended,
        )
        self._sticky: dict[str, StickyChoice] = {}
        self._buffered_bytes = 0
        self._next_round_ms = 0.0
        self._sent_count = 0
        self._failed_count = 0
        self._first_failed: tuple[int, Exception] | None = None
        self.delivered_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is None:
            self.flush()

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Takes a record; it goes out with its batch, during this call or a later one."""
        where = self._choose_partition(topic, key, partition)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        batch = self._batch_for(where, _largest_size(key, value, headers))
        builder = batch.builder
        delivery = Delivery(batch, builder.count, self._wait_for)
        size_before = builder.size
        builder.append(timestamp_ms, key, value, headers)
        self._sent_count += 1
        self._buffered_bytes += builder.size - size_before
        if builder.size >= self._batch_bytes:
            self._close(batch)
        self._move()
        return delivery

    def flush(self) -> None:
        """Waits until every record has its outcome; DeliveryFailed where one since the last flush
        was not delivered.
        """
        while not self._sender.is_idle:
            self._sender.round(wait=True, flushing=True)
        count, first = self._failed_count, self._first_failed
        self._failed_count, self._first_failed = 0, None
        if first is not None:
            number, error = first
            raise DeliveryFailed(count, error, number)

    @property
    def has_failed(self) -> bool:
        """Whether the next flush will say that records were not delivered."""
        return self._first_failed is not None

    def _wait_for(self, batch: ProducedBatch) -> None:
        while not batch.is_done:
            self._sender.round(wait=True, flushing=True)

    def _batch_ended(self, batch: ProducedBatch) -> None:
        self._buffered_bytes -= batch.builder.size
        if batch.error is None:
            self.delivered_count += batch.builder.count
        else:
            self._failed_count += batch.builder.count
            if self._first_failed is None or batch.number < self._first_failed[0]:
                self._first_failed = (batch.number, batch.error)

    def _choose_partition(
        self, name: str, key: bytes | None, partition: int | None
    ) -> TopicPartition:
        topic = self._cluster.topic(name, create_missing=self._create_topics)
        if partition is not None:
            if partition not in topic.partitions:
                raise NoSuchTopic(
                    f"the topic {name!r} has the partitions 0 to {len(topic.partitions) - 1},"
                    f" not {partition}"
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

    def _batch_for(self, where: TopicPartition, size: int) -> ProducedBatch:
        """The open batch of the partition, or a new one where the record does not fit."""
        batch = self._sender.open_batch(where)
        if batch is not None:
            if batch.builder.size + size <= self._batch_bytes:
                return batch
            self._close(batch)
        now = now_ms()
        batch = ProducedBatch(where, self._sent_count + 1, now, Deadline(self._delivery_timeout_ms))
        self._buffered_bytes += batch.builder.size
        self._next_round_ms = min(self._next_round_ms, now + self._linger_ms)
        self._sender.add(batch)
        return batch

    def _close(self, batch: ProducedBatch) -> None:
        batch.is_full = True
        self._next_round_ms = 0.0
        sticky = self._sticky.get(batch.partition.topic)
        if sticky is not None:
            sticky.batch_is_full(batch.partition.partition)

    def _move(self) -> None:
        """Data moves when a batch is full or has waited, or when there is no room for more."""
        now = now_ms()
        if now >= self._next_round_ms:
            self._sender.round()
            self._next_round_ms = now + self._linger_ms
        while self._buffered_bytes > self._buffer_bytes:
            self._sender.round(wait=True, flushing=True)


def _largest_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    size = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += len(name) * 4 + len(content or b"") + _HEADER_OVERHEAD_BYTES
    return size
