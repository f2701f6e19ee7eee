"""One partition replica: its log, its leader epoch, its high watermark and the waiters for it.

Promise: the high watermark moves only over records that are flushed (with `flush.policy=os`: over
records that are written) and never back, and every waiter for an offset is called once. The only
replica of a partition is its leader and its whole in-sync set.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import LeaderEpoch, NodeId, Offset, TopicId, TopicPartition
from sawlog.core.ports import DiskError, FileSlice
from sawlog.protocol.record_batch import BatchHeader
from sawlog.storage.append_origin import AppendOrigin
from sawlog.storage.log import Appended, Log
from sawlog.storage.log_config import FOREVER

logger = EventLogger(__name__)

QUIET_FLUSH_MS = 50
"""How long written records may stay unflushed while no request waits for them.

A waiting request (acks=all, a fetch at the high watermark, ListOffsets) starts a flush at once; the
delay saves a producer with acks=1 one fdatasync per batch.
"""

OnCommitted = Callable[[KafkaError | None], None]


class HighWatermarkListener(Protocol):
    """A parked Fetch, which is retried when a high watermark moves."""

    def high_watermark_moved(self) -> None:
        """The high watermark has moved, or the replica has failed or closed."""


class Partition:
    """A leading replica.

    Invariants: start_offset <= high_watermark <= end_offset; with `commits_on_flush` high_watermark
    <= the log's flushed offset; `_waiting` is ordered by offset and holds only offsets above the
    high watermark.
    """

    __slots__ = (
        "_flush",
        "_listeners",
        "_waiting",
        "commits_on_flush",
        "high_watermark",
        "in_sync",
        "leader_epoch",
        "log",
        "name",
        "topic_id",
    )

    def __init__(
        self,
        log: Log,
        name: TopicPartition,
        topic_id: TopicId,
        *,
        commits_on_flush: bool,
    ) -> None:
        self.log = log
        self.name = name
        self.topic_id = topic_id
        self.commits_on_flush = commits_on_flush
        self.leader_epoch = LeaderEpoch(-1)
        self.in_sync: tuple[NodeId, ...] = ()
        committed = log.flushed_offset if commits_on_flush else log.end_offset
        self.high_watermark = Offset(max(committed, log.start_offset))
        log.set_high_watermark(self.high_watermark)
        self._flush = log.flush
        self._flush.listen(self._flushed)
        self._waiting: deque[tuple[int, OnCommitted]] = deque()
        self._listeners: dict[HighWatermarkListener, None] = {}

    # Roles

    def lead(self, epoch: LeaderEpoch, in_sync: tuple[NodeId, ...]) -> None:
        """Lead from now on in `epoch`, which is on disk before its first append."""
        if epoch > self.leader_epoch:
            self.log.assign_epoch(epoch)
            self.leader_epoch = epoch
        self.in_sync = in_sync
        self._request_flush()

    def check_epoch(self, current: int) -> None:
        """Reject a client that expects an older or newer leader epoch (KIP-320)."""
        if current >= 0 and current != self.leader_epoch:
            if current < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    @property
    def last_stable_offset(self) -> Offset:
        """Without transactions every committed record is stable."""
        return self.high_watermark

    # Appending and committing

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        is_awaited: bool = False,
    ) -> Appended:
        """Append one validated batch. With `is_awaited` the caller is going to wait for its commit
        (`when_committed`), and the flush begins now."""
        appended = self.log.append(batch, header, self.leader_epoch, origin)
        if not self.commits_on_flush:
            self._advance()
            self._flush_if_due()
        elif is_awaited or self._listeners:
            self._flush.request(self.log.end_offset)
        else:
            self._flush.request_within(QUIET_FLUSH_MS)
        return appended

    def when_committed(self, offset: int, action: OnCommitted) -> None:
        """Call `action` once the high watermark is at or beyond `offset`; now, if it is already."""
        if self.high_watermark >= offset:
            action(None)
            return
        waiting = self._waiting
        if waiting and waiting[-1][0] > offset:  # a duplicate: newer batches wait already
            offset = waiting[-1][0]
        waiting.append((offset, action))
        self._flush.request(offset)

    def watch(self, listener: HighWatermarkListener) -> None:
        """Call `listener` at every move of the high watermark, until `unwatch`."""
        self._listeners[listener] = None
        self._request_flush()

    def unwatch(self, listener: HighWatermarkListener) -> None:
        self._listeners.pop(listener, None)

    def close(self, error: KafkaError) -> None:
        """Close the replica: waiters for committed offsets succeed, the others get `error`.

        When a broker stops, the log was flushed and closed before.
        """
        self._flush.listen(None)
        self._advance()
        self._fail(error)

    # Reading

    def read(self, offset: int, max_bytes: int, *, whole_first_batch: bool) -> FileSlice | None:
        """A slice of committed records that begins with the batch that holds `offset`."""
        return self.log.read(
            offset,
            max_bytes,
            limit_offset=self.high_watermark,
            whole_first_batch=whole_first_batch,
        )

    def delete_before(self, offset: int) -> Offset:
        """Move the log start offset (DeleteRecords); -1 means the high watermark. Returns it."""
        target = self.high_watermark if offset == -1 else offset
        if target > self.high_watermark or target < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if target > self.log.start_offset:
            self.log.advance_start(target)
        return Offset(self.log.start_offset)

    # Flushing

    def _request_flush(self) -> None:
        """Flush everything that is written, if the high watermark waits for that."""
        if self.commits_on_flush and self.log.flushed_offset < self.log.end_offset:
            self._flush.request(self.log.end_offset)

    def _flush_if_due(self) -> None:
        """flush.policy=os: Kafka's own rules, log.flush.interval.messages and .ms."""
        log = self.log
        if log.end_offset - self._flush.target >= log.config.flush_messages:
            self._flush.request(log.end_offset)
        elif log.config.flush_ms < FOREVER:
            self._flush.request_within(log.config.flush_ms)

    def _flushed(self, error: DiskError | None) -> None:
        """A flush of the log is over."""
        if error is not None:
            if self._flush.is_queued:  # waiters get the outcome of the flush that covers them
                return
            self._fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
            return
        if not self.commits_on_flush:
            if self.log.unflushed_messages:
                self._flush_if_due()
            return
        self._advance()
        if self.log.flushed_offset < self.log.end_offset:
            if self._waiting or self._listeners:
                self._flush.request(self.log.end_offset)
            else:
                self._flush.request_within(QUIET_FLUSH_MS)

    def _advance(self) -> None:
        log = self.log
        committed = log.flushed_offset if self.commits_on_flush else log.end_offset
        if committed <= self.high_watermark:
            return
        self.high_watermark = Offset(committed)
        log.set_high_watermark(committed)
        waiting = self._waiting
        while waiting and waiting[0][0] <= committed:
            _call(waiting.popleft()[1], None)
        if self._listeners:
            for listener in tuple(self._listeners):
                listener.high_watermark_moved()

    def _fail(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, action in waiting:
            _call(action, error)
        for listener in tuple(self._listeners):
            listener.high_watermark_moved()


def _call(action: OnCommitted, error: KafkaError | None) -> None:
    """Call a waiter; one that raises must not keep the others waiting."""
    try:
        action(error)
    except Exception:
        logger.exception("a waiter for the high watermark failed")
