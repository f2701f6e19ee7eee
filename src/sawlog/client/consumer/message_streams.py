"""The paper's own way to read: message streams, iterators that never end and block where there is
nothing, each for a thread of its own.

Whoever finds its stream empty polls for all, one at a time. A partition's messages all go into one
stream, in order; streams get about as many partitions each. A stream whose reader is slow holds up
its own partitions alone. A message is done when its reader comes for the next one.
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
_FULL = 10_000  # messages in a stream, above which its partitions wait
_FREE = _FULL // 2


class RecordSource(NamedTuple):
    """The consumer, as far as it is needed here."""

    poll: Callable[[float], list[ConsumedRecord]]
    pause: Callable[[Iterable[TopicPartition]], None]
    resume: Callable[[Iterable[TopicPartition]], None]
    assignment: Callable[[], frozenset[TopicPartition]]


class MessageStream:
    """For one thread at a time; different streams may be read by different threads."""

    def __init__(self, take: Callable[[], ConsumedRecord | None]) -> None:
        self._take = take

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumedRecord:
        """Waits for it. KafkaError or ClientError where it cannot be had now; the next call tries
        again.
        """
        record = self._take()
        if record is None:
            raise StopIteration
        return record


class MessageStreams:
    """`lock` guards all that is kept here; polls happen without it."""

    def __init__(self, source: RecordSource, count: int) -> None:
        if count < 1:
            raise ValueError(f"at least one stream, not {count}")
        self._source = source
        self._changed = threading.Condition()
        self._queues: list[deque[ConsumedRecord]] = [deque() for _ in range(count)]
        self._handed_out: list[ConsumedRecord | None] = [None] * count
        self._numbers: dict[TopicPartition, int] = {}
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
        """How far the readers have come: what may be committed."""
        with self._changed:
            return dict(self._done)

    def _take_from(self, number: int) -> Callable[[], ConsumedRecord | None]:
        return lambda: self._take(number)

    def _take(self, number: int) -> ConsumedRecord | None:
        queue = self._queues[number]
        with self._changed:
            self._finish(number)
            while not queue:
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
        """Its reader has come back from what it was given."""
        record, self._handed_out[number] = self._handed_out[number], None
        if record is not None:
            partition = partition_of(record.topic, record.partition)
            if partition in self._numbers:
                self._done[partition] = max(self._done.get(partition, 0), record.offset + 1)

    def _poll(self) -> None:
        """For all streams, with the lock released."""
        self._has_poller = True
        full, free = self._full_and_free()
        self._changed.release()
        records: list[ConsumedRecord] = []
        try:
            assigned = self._source.assignment()
            self._source.pause(full & assigned)
            self._source.resume(free & assigned)
            records = self._source.poll(_POLL_MS)
        finally:
            self._changed.acquire()
            self._has_poller = False
            for record in records:
                partition = partition_of(record.topic, record.partition)
                self._queues[self._number_of(partition)].append(record)
            self._changed.notify_all()

    def _number_of(self, partition: TopicPartition) -> int:
        number = self._numbers.get(partition)
        if number is None:
            loads = [0] * len(self._queues)
            for taken in self._numbers.values():
                loads[taken] += 1
            number = self._numbers[partition] = loads.index(min(loads))
        return number

    def _full_and_free(self) -> tuple[set[TopicPartition], set[TopicPartition]]:
        full = {p for p, number in self._numbers.items() if len(self._queues[number]) > _FULL}
        free = {
            p
            for p in self._paused
            if p not in self._numbers or len(self._queues[self._numbers[p]]) < _FREE
        }
        self._paused = (self._paused | full) - free
        return full, free

    def _drop(self, partitions: Sequence[TopicPartition]) -> None:
        """What is not done yet is for whoever has them now, be it us again."""
        gone = frozenset(partitions)
        with self._changed:
            for number, record in enumerate(self._handed_out):
                if record is not None and partition_of(record.topic, record.partition) in gone:
                    self._handed_out[number] = None
            for number in {self._numbers[each] for each in gone if each in self._numbers}:
                queue = self._queues[number]
                kept = [r for r in queue if partition_of(r.topic, r.partition) not in gone]
                queue.clear()
                queue.extend(kept)
            for partition in gone:
                self._numbers.pop(partition, None)
                self._done.pop(partition, None)
                self._paused.discard(partition)


class _Listener(RebalanceListener):
    def __init__(self, released: Callable[[Sequence[TopicPartition]], None]) -> None:
        self._drop = released

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._drop(partitions)
