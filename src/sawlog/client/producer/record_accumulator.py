"""The batches of a producer that have no outcome yet. Pure: the time is passed in."""

from collections import deque
from collections.abc import Iterable

from sawlog.client.producer.delivery import ProducedBatch
from sawlog.core.ids import TopicPartition


class RecordAccumulator:
    """One queue of batches per partition, in send order.

    No queue is empty. Only the first batch of a queue is ever in flight, and its partition is muted
    meanwhile, so the order of a partition holds through retries. The producer appends records and
    closes full batches (`Producer.send`).
    """

    def __init__(self, linger_ms: float) -> None:
        self._linger_ms = linger_ms
        self._queues: dict[TopicPartition, deque[ProducedBatch]] = {}
        self._muted: set[TopicPartition] = set()

    @property
    def is_empty(self) -> bool:
        return not self._queues

    def incomplete_batches(self) -> list[ProducedBatch]:
        return [batch for queue in self._queues.values() for batch in queue]

    def open_batch(self, partition: TopicPartition) -> ProducedBatch | None:
        """Return the batch that takes the partition's next records, if there is one."""
        queue = self._queues.get(partition)
        if queue is None or queue[-1].is_closed or queue[-1].sequence is not None:
            return None
        return queue[-1]

    def add(self, batch: ProducedBatch) -> None:
        """Append a batch to its partition's queue; it may still take records."""
        queue = self._queues.get(batch.partition)
        if queue is None:
            self._queues[batch.partition] = deque((batch,))
        else:
            queue.append(batch)

    def ready(self, now_ms: float, *, flushing: bool) -> list[ProducedBatch]:
        """Return the batches to send now, one per partition at most.

        A batch is ready when it is closed or has lingered, and its retry backoff is over;
        `flushing` makes a batch ready before it has lingered.
        """
        return [b for b in self._sendable() if now_ms >= self._ready_at_ms(b, flushing)]

    def next_ready_ms(self, *, flushing: bool) -> float:
        """Return when the next batch will be ready; infinity if none can be sent."""
        times = (self._ready_at_ms(batch, flushing) for batch in self._sendable())
        return min(times, default=float("inf"))

    def unmuted_batches(self) -> list[ProducedBatch]:
        """Return the first batch of each partition without a batch in flight."""
        return self._sendable()

    def mute(self, partitions: Iterable[TopicPartition]) -> None:
        """Hold back partitions that have a batch in flight."""
        self._muted.update(partitions)

    def unmute(self, partitions: Iterable[TopicPartition]) -> None:
        self._muted.difference_update(partitions)

    def is_first(self, batch: ProducedBatch) -> bool:
        queue = self._queues.get(batch.partition)
        return queue is not None and queue[0] is batch

    def remove_first(self, batch: ProducedBatch) -> None:
        queue = self._queues[batch.partition]
        assert queue[0] is batch
        if len(queue) == 1:
            del self._queues[batch.partition]
        else:
            queue.popleft()

    def _sendable(self) -> list[ProducedBatch]:
        muted = self._muted
        return [queue[0] for partition, queue in self._queues.items() if partition not in muted]

    def _ready_at_ms(self, batch: ProducedBatch, flushing: bool) -> float:
        if flushing or batch.is_closed or batch.sequence is not None:
            return batch.retry_at_ms
        return max(batch.retry_at_ms, batch.opened_ms + self._linger_ms)


def split_by_size(batches: Iterable[ProducedBatch], max_bytes: int) -> list[list[ProducedBatch]]:
    """Split encoded batches into requests of at most `max_bytes`; one batch may be larger."""
    requests: list[list[ProducedBatch]] = []
    size = 0
    for batch in batches:
        if not requests or size + batch.encoded_size > max_bytes:
            requests.append([])
            size = 0
        requests[-1].append(batch)
        size += batch.encoded_size
    return requests
