"""Message streams, the consumer API of the Kafka paper: endless, blocking iterators.

Each stream is for a thread of its own. A reader whose stream is empty polls on behalf of all
streams, one at a time. All messages of a partition go to one stream, in order; partitions are
spread evenly. A slow reader holds up its own partitions only. A message is done when its reader
asks for the next one.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Self

from sawlog.client.consumer.fetched_records import ConsumedRecord
from sawlog.client.consumer.membership.rebalance_listener import RebalanceListener
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition

_POLL_MS = 500
_FULL = 10_000  # messages in a stream above which its partitions are paused
_RESUME = _FULL // 2


class RecordSource(NamedTuple):
    """The methods of the consumer that streams use."""

    poll: Callable[[float], list[ConsumedRecord]]
    pause: Callable[[Iterable[TopicPartition]], None]
    resume: Callable[[Iterable[TopicPartition]], None]
    assignment: Callable[[], frozenset[TopicPartition]]
    may_deliver: Callable[[], bool] = lambda: True  # if not, a reader polls first


class MessageStream:
    """An iterator of messages for one thread; different threads may read different streams."""

    def __init__(self, take: Callable[[], ConsumedRecord | None]) -> None:
        self._take = take

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumedRecord:
        """Wait for the next message; after a KafkaError or ClientError the next call retries."""
        record = self._take()
        if record is None:
            raise StopIteration
        return record


class MessageStreams:
    """The streams of a consumer. `_changed` guards all state and is released during a poll."""

    def __init__(self, source: RecordSource, count: int) -> None:
        if count < 1:
            raise ValueError(f"the number of streams must be at least 1, not {count}")
        self._source = source
        self._changed = threading.Condition()
        self._queues: list[deque[ConsumedRecord]] = [deque() for _ in range(count)]
        self._handed_out: list[ConsumedRecord | None] = [None] * count
        self._stream_of: dict[TopicPartition, int] = {}
        self._done: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._has_poller = False
        self._is_closed = False
        self.listener = _Listener(self._drop)
        self.streams = [MessageStream(self._take_from(number)) for number in range(count)]

    def end(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def progress(self) -> dict[TopicPartition, int]:
        """Return the offsets after the messages that are done, for commits."""
        with self._changed:
            return dict(self._done)

    def _take_from(self, number: int) -> Callable[[], ConsumedRecord | None]:
        return lambda: self._take(number)

    def _take(self, number: int) -> ConsumedRecord | None:
        queue = self._queues[number]
        with self._changed:
            self._finish(number)
            while not queue or not (self._is_closed or self._source.may_deliver()):
                if self._is_closed:
                    return None
                if self._has_poller:
                    self._changed.wait()
                else:
                    self._poll()
            if self._is_closed:
                return None
            record = self._handed_out[number] = queue.popleft()
            return record

    def _finish(self, number: int) -> None:
        """Mark the message that the reader was given last as done."""
        record, self._handed_out[number] = self._handed_out[number], None
        if record is not None:
            partition = partition_of(record.topic, record.partition)
            if partition in self._stream_of:
                self._done[partition] = max(self._done.get(partition, 0), record.offset + 1)

    def _poll(self) -> None:
        """Poll on behalf of all streams, with the lock released."""
        self._has_poller = True
        to_pause, to_resume = self._partitions_to_pause_and_resume()
        self._changed.release()
        records: list[ConsumedRecord] = []
        try:
            assigned = self._source.assignment()
            self._source.pause(to_pause & assigned)
            self._source.resume(to_resume & assigned)
            records = self._source.poll(_POLL_MS)
        finally:
            self._changed.acquire()
            self._has_poller = False
            for record in records:
                partition = partition_of(record.topic, record.partition)
                self._queues[self._stream_for(partition)].append(record)
            self._changed.notify_all()

    def _stream_for(self, partition: TopicPartition) -> int:
        number = self._stream_of.get(partition)
        if number is None:
            loads = [0] * len(self._queues)
            for taken in self._stream_of.values():
                loads[taken] += 1
            number = self._stream_of[partition] = loads.index(min(loads))
        return number

    def _partitions_to_pause_and_resume(self) -> tuple[set[TopicPartition], set[TopicPartition]]:
        full = {p for p, number in self._stream_of.items() if len(self._queues[number]) > _FULL}
        free = {
            p
            for p in self._paused
            if p not in self._stream_of or len(self._queues[self._stream_of[p]]) < _RESUME
        }
        self._paused = (self._paused | full) - free
        return full, free

    def _drop(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop messages of revoked partitions; their next owner reads them again."""
        revoked = frozenset(partitions)
        with self._changed:
            for number, record in enumerate(self._handed_out):
                if record is not None and partition_of(record.topic, record.partition) in revoked:
                    self._handed_out[number] = None
            for number in {self._stream_of[each] for each in revoked if each in self._stream_of}:
                queue = self._queues[number]
                kept = [r for r in queue if partition_of(r.topic, r.partition) not in revoked]
                queue.clear()
                queue.extend(kept)
            for partition in revoked:
                self._stream_of.pop(partition, None)
                self._done.pop(partition, None)
                self._paused.discard(partition)


class _Listener(RebalanceListener):
    def __init__(self, released: Callable[[Sequence[TopicPartition]], None]) -> None:
        self._drop = released

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._drop(partitions)
