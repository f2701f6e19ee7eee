"""Batches of produced records, and the Delivery by which a caller learns a record's outcome."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from sawlog.client.net.retries import Backoff, Deadline
from sawlog.core.ids import TopicPartition
from sawlog.protocol.compression import Codec
from sawlog.protocol.records import BatchBuilder

NO_OFFSET = -1


class Delivered(NamedTuple):
    """The position of a stored record; the offset is -1 with acks=0, which returns none."""

    partition: TopicPartition
    offset: int
    append_time_ms: int  # -1 unless the topic uses log append time


class DeliveryFailed(Exception):
    """Some records were not acknowledged; each one's Delivery has its own error.

    `first_number` is the number of the first of them among all records sent, from 1 on.
    """

    def __init__(self, count: int, first: Exception, first_number: int) -> None:
        super().__init__(f"{count} records were not delivered; the first: {first}")
        self.count = count
        self.first = first
        self.first_number = first_number


class BatchSequence(NamedTuple):
    """The producer id, epoch and base sequence in a batch's header."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


NO_SEQUENCE = BatchSequence(-1, -1, -1)


class ProducedBatch:
    """Records of one partition that are sent in one record batch and share its outcome.

    Open for appends until it is closed, because it is full, or has a `sequence`. Done once it has
    an outcome, which it gets exactly once. `first_number` is the number of its first record among
    all records sent, from 1 on.
    """

    __slots__ = (
        "_backoff",
        "append_time_ms",
        "base_offset",
        "builder",
        "callbacks",
        "connection_lost_count",
        "deadline",
        "encoded",
        "error",
        "first_number",
        "is_closed",
        "is_done",
        "opened_ms",
        "partition",
        "retry_at_ms",
        "sequence",
    )

    def __init__(
        self,
        partition: TopicPartition,
        first_number: int,
        opened_ms: float,
        deadline: Deadline,
        builder: BatchBuilder | None = None,
    ) -> None:
        self.partition = partition
        self.first_number = first_number
        self.opened_ms = opened_ms
        self.deadline = deadline
        self.builder = BatchBuilder() if builder is None else builder
        self.callbacks: list[Callable[[], None]] = []
        self.sequence: BatchSequence | None = None
        self.encoded: bytearray | None = None
        self.is_closed = False
        self.is_done = False
        self.connection_lost_count = 0
        self.base_offset = NO_OFFSET
        self.append_time_ms = -1
        self.error: Exception | None = None
        self.retry_at_ms = 0.0
        self._backoff = Backoff()

    @property
    def encoded_size(self) -> int:
        return 0 if self.encoded is None else len(self.encoded)

    def close(self) -> None:
        """Take no more records."""
        self.is_closed = True

    def assign(self, sequence: BatchSequence) -> None:
        """Set the sequence, once; it stays through all retries."""
        assert self.sequence is None
        self.sequence = sequence

    def encode(self, codec: Codec, *, is_transactional: bool = False) -> None:
        assert self.sequence is not None
        self.encoded = self.builder.finish(
            codec=codec,
            producer_id=self.sequence.producer_id,
            producer_epoch=self.sequence.producer_epoch,
            base_sequence=self.sequence.base_sequence,
            transactional=is_transactional,
        )

    def add_callback(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def clear_callbacks(self) -> None:
        self.callbacks = []

    def count_lost_connection(self) -> None:
        self.connection_lost_count += 1

    def succeed(self, base_offset: int, append_time_ms: int) -> None:
        self._check_not_done()
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.is_closed = self.is_done = True
        self.encoded = None

    def fail(self, error: Exception) -> None:
        self._check_not_done()
        self.error = error
        self.is_closed = self.is_done = True
        self.encoded = None

    def schedule_retry(self, now_ms: float) -> bool:
        """Set the time of the next try; False if the delivery timeout ends before it."""
        wait_ms = self._backoff.next_ms()
        self.retry_at_ms = now_ms + wait_ms
        return wait_ms < self.deadline.remaining_ms

    def _check_not_done(self) -> None:
        if self.is_done:
            raise RuntimeError(f"a batch of {self.partition} has two outcomes")


class BatchWaiter(Protocol):
    """The producer of a Delivery, as far as the Delivery uses it."""

    def wait_for(self, batch: ProducedBatch, timeout_ms: float | None) -> None:
        """Wait until the batch is done; TimeoutError after the timeout."""

    def call_when_done(self, batch: ProducedBatch, callback: Callable[[], None]) -> None:
        """Call back once the batch is done; at once if it is done already."""


class Delivery:
    """The outcome of one record, now or later. Safe to use from any thread."""

    __slots__ = ("_batch", "_index", "_producer")

    def __init__(self, batch: ProducedBatch, index: int, producer: BatchWaiter) -> None:
        self._batch = batch
        self._index = index
        self._producer = producer

    @property
    def is_done(self) -> bool:
        return self._batch.is_done

    @property
    def error(self) -> Exception | None:
        """The error of a failed record; None if it was delivered or is not done."""
        return self._batch.error

    def result(self, timeout_ms: float | None = None) -> Delivered:
        """Wait for the outcome, and raise the error of a failed record.

        TimeoutError after `timeout_ms`; the producer goes on trying to deliver the record.
        """
        batch = self._batch
        if not batch.is_done:
            self._producer.wait_for(batch, timeout_ms)
        if batch.error is not None:
            raise batch.error
        offset = NO_OFFSET if batch.base_offset < 0 else batch.base_offset + self._index
        return Delivered(batch.partition, offset, batch.append_time_ms)

    def add_done_callback(self, callback: Callable[["Delivery"], object]) -> None:
        """Call `callback` with this Delivery once it is done.

        Callbacks of a partition run in record order, in the thread that received the response or
        in a caller's: they should be short. Exceptions are logged.
        """
        self._producer.call_when_done(self._batch, _Call(callback, self))


class _Call:
    __slots__ = ("_callback", "_delivery")

    def __init__(self, callback: Callable[[Delivery], object], delivery: Delivery) -> None:
        self._callback = callback
        self._delivery = delivery

    def __call__(self) -> None:
        self._callback(self._delivery)
