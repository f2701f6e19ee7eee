"""What becomes of produced records: the batches they wait in, and how each learns its fate."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from sawlog.client.net.retries import Backoff, Deadline
from sawlog.core.ids import TopicPartition
from sawlog.protocol.records import BatchBuilder

NO_OFFSET = -1


class Delivered(NamedTuple):
    """Where a record is now; the offset is -1 where the broker was not asked to tell (acks=0)."""

    partition: TopicPartition
    offset: int
    append_time_ms: int  # -1 unless the topic's timestamps are those of the append


class DeliveryFailed(Exception):
    """Some records were not acknowledged; each one's Delivery knows its own reason.

    `first_number` says which of all records that were sent is the first of them, from 1 on.
    """

    def __init__(self, count: int, first: Exception, first_number: int) -> None:
        super().__init__(f"{count} records were not delivered; the first: {first}")
        self.count = count
        self.first = first
        self.first_number = first_number


class BatchSequence(NamedTuple):
    """What goes into a batch's header."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


NO_SEQUENCE = BatchSequence(-1, -1, -1)


class ProducedBatch:
    """Records of one partition that travel and fare together.

    Open until it is full or has a `stamp`; done once it has an outcome, which it gets exactly once.
    `number` is that of its first record among all that were sent, from 1 on.
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
        "is_done",
        "is_full",
        "number",
        "opened_ms",
        "partition",
        "retry_at_ms",
        "stamp",
    )

    def __init__(
        self, partition: TopicPartition, number: int, opened_ms: float, deadline: Deadline
    ) -> None:
        self.partition = partition
        self.number = number
        self.opened_ms = opened_ms
        self.deadline = deadline
        self.builder = BatchBuilder()
        self.callbacks: list[Callable[[], None]] = []
        self.stamp: BatchSequence | None = None
        self.encoded: bytearray | None = None
        self.is_full = False
        self.is_done = False
        self.connection_lost_count = 0
        self.base_offset = NO_OFFSET
        self.append_time_ms = -1
        self.error: Exception | None = None
        self.retry_at_ms = 0.0
        self._backoff = Backoff()

    def succeed(self, base_offset: int, append_time_ms: int) -> None:
        self._check_not_done()
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.is_full = self.is_done = True
        self.encoded = None

    def fail(self, error: Exception) -> None:
        self._check_not_done()
        self.error = error
        self.is_full = self.is_done = True
        self.encoded = None

    def schedule_retry(self, now_ms: float) -> bool:
        """Puts the batch off for a while; False where its time would be up by then."""
        wait_ms = self._backoff.next_ms()
        self.retry_at_ms = now_ms + wait_ms
        return wait_ms < self.deadline.remaining_ms

    def _check_not_done(self) -> None:
        if self.is_done:
            raise RuntimeError(f"a batch of {self.partition} has two outcomes")


class BatchWaiter(Protocol):
    """Who brings the batches away: a producer."""

    def wait_for(self, batch: ProducedBatch, timeout_ms: float | None) -> None:
        """Until the batch is done; TimeoutError where the time is up before."""

    def call_when_done(self, batch: ProducedBatch, callback: Callable[[], None]) -> None:
        """At once where it is done already."""


class Delivery:
    """The fate of one record. Safe to use from any thread."""

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
        """Why it failed; None where it did not, or not yet."""
        return self._batch.error

    def result(self, timeout_ms: float | None = None) -> Delivered:
        """Waits for the outcome; raises what went wrong. TimeoutError where none came in time, and
        the record is still under way.
        """
        batch = self._batch
        if not batch.is_done:
            self._producer.wait_for(batch, timeout_ms)
        if batch.error is not None:
            raise batch.error
        offset = NO_OFFSET if batch.base_offset < 0 else batch.base_offset + self._index
        return Delivered(batch.partition, offset, batch.append_time_ms)

    def add_done_callback(self, callback: Callable[["Delivery"], object]) -> None:
        """Calls it with this Delivery once there is an outcome, in the order of the partition's
        records, in whichever thread saw it: make it short. What it raises is logged.
        """
        self._producer.call_when_done(self._batch, _Call(callback, self))


class _Call:
    __slots__ = ("_callback", "_delivery")

    def __init__(self, callback: Callable[[Delivery], object], delivery: Delivery) -> None:
        self._callback = callback
        self._delivery = delivery

    def __call__(self) -> None:
        self._callback(self._delivery)
