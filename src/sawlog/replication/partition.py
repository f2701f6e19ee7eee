"""One partition replica: its log, its leader epoch, its watermark and who waits for it.

Promise: the high watermark moves only over records that are flushed (with `flush.policy=os`: over
records that are written), never back, and everybody who waits for an offset is told once.
The sole replica of a partition is its leader and its whole in-sync set.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import LeaderEpoch, NodeId, Offset, TopicId, TopicPartition
from sawlog.core.ports import DiskError, FileSlice, Timer, TimerHandle
from sawlog.protocol.record_batch import BatchHeader
from sawlog.replication.commits import CommitRounds
from sawlog.storage.log import Appended, Log

logger = EventLogger(__name__)

QUIET_FLUSH_MS = 50
"""How long written records may stay unflushed while nobody waits for them to be committed.

Somebody who waits (acks=all, a fetch at the watermark, ListOffsets) starts the flush at once; the
pause only spares a producer with acks=1 and no reader one fdatasync per batch.
"""

Committed = Callable[[KafkaError | None], None]


class Reader(Protocol):
    """A parked fetch: it looks again whenever a watermark that it watches has moved."""

    def look_again(self) -> None: ...


class Partition:
    """A leading replica.

    Invariants: start_offset <= high_watermark <= end_offset; with the commit policy high_watermark
    <= the log's flushed offset; `_waiting` is ordered by offset and holds only offsets above the
    watermark; at most one flush is wanted or under way.
    """

    __slots__ = (
        "_flush_timer",
        "_flushing",
        "_is_closed",
        "_readers",
        "_rounds",
        "_timer",
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
        timer: Timer,
        rounds: CommitRounds,
        commits_on_flush: bool,
    ) -> None:
        self.log = log
        self.name = name
        self.topic_id = topic_id
        self.commits_on_flush = commits_on_flush
        self.leader_epoch = LeaderEpoch(-1)
        self.in_sync: tuple[NodeId, ...] = ()
        committed = log.flushed_offset if commits_on_flush else log.end_offset
        self.high_watermark = log.high_watermark = Offset(max(committed, log.start_offset))
        self._timer = timer
        self._rounds = rounds
        self._flush_timer: TimerHandle | None = None
        self._flushing = False
        self._is_closed = False
        self._waiting: deque[tuple[int, Committed]] = deque()
        self._readers: dict[Reader, None] = {}

    # Roles

    def lead(self, epoch: LeaderEpoch, in_sync: tuple[NodeId, ...]) -> None:
        """Leads from now on in `epoch`, which is on disk before the first append of it."""
        if epoch > self.leader_epoch:
            self.log.assign_epoch(epoch)
            self.leader_epoch = epoch
        self.in_sync = in_sync
        self._flush_if_wanted()

    def check_epoch(self, current: int) -> None:
        """Refuses a client whose idea of the leader epoch is older or newer than ours (KIP-320)."""
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
        self, batch: memoryview, header: BatchHeader, *, is_awaited: bool = False
    ) -> Appended:
        """Appends one checked batch; `when_committed` tells when it is safe. With `is_awaited` it
        will be asked in a moment: the flush need not wait for that."""
        appended = self.log.append(batch, header, self.leader_epoch)
        if not self.commits_on_flush:
            self._advance()
            self._flush_if_due()
        elif not self._flushing:
            if is_awaited or self._readers:
                self._flush()
            elif self._flush_timer is None:
                self._flush_timer = self._timer.after(QUIET_FLUSH_MS, self._quiet_flush)
        return appended

    def when_committed(self, offset: int, action: Committed) -> None:
        """Calls `action` once the watermark is at or beyond `offset`; now, if it is already."""
        if self.high_watermark >= offset:
            action(None)
            return
        waiting = self._waiting
        if waiting and waiting[-1][0] > offset:  # a duplicate's offset lies before newer ones
            offset = waiting[-1][0]
        waiting.append((offset, action))
        if not self._flushing:
            self._flush()

    def watch(self, reader: Reader) -> None:
        """Lets a parked fetch see every move of the watermark, until it is unwatched."""
        self._readers[reader] = None
        self._flush_if_wanted()

    def unwatch(self, reader: Reader) -> None:
        self._readers.pop(reader, None)

    def close(self, error: KafkaError) -> None:
        """The replica goes away: who waits for what is committed by now hears so, others `error`.

        When a broker stops, its log was closed, and so flushed, before.
        """
        self._is_closed = True
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self._advance()
        self._fail(error)

    # Reading

    def read(self, offset: int, max_bytes: int, *, whole_first_batch: bool) -> FileSlice | None:
        """A slice of committed records from the batch that holds `offset`."""
        return self.log.read(
            offset,
            max_bytes,
            limit_offset=self.high_watermark,
            whole_first_batch=whole_first_batch,
        )

    def delete_before(self, offset: int) -> Offset:
        """DeleteRecords: moves the start of the log; -1 means the watermark. Returns the start."""
        target = self.high_watermark if offset == -1 else offset
        if target > self.high_watermark or target < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if target > self.log.start_offset:
            self.log.advance_start(target)
        return Offset(self.log.start_offset)

    # Flushing

    def _flush_if_wanted(self) -> None:
        dirty = self.log.flushed_offset < self.log.end_offset
        if self.commits_on_flush and dirty and not self._flushing:
            self._flush()

    def _flush_if_due(self) -> None:
        """flush.policy=os: Kafka's own rules, log.flush.interval.messages and .ms."""
        log = self.log
        if self._flushing:
            return
        if log.end_offset - log.flushed_offset >= log.config.flush_messages:
            self._flush()
        elif log.config.flush_ms < 2**63 - 1 and self._flush_timer is None:
            self._flush_timer = self._timer.after(log.config.flush_ms, self._quiet_flush)

    def _quiet_flush(self) -> None:
        self._flush_timer = None
        if not self._flushing and not self._is_closed:
            self._flush()

    def _flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self._flushing = True
        self._rounds.want(self)

    def start_flush(self) -> None:
        """The round has come: flushes everything that is written by now."""
        if self._is_closed:
            self._timer.after(0, self._rounds.settled)
            return
        try:
            self.log.flush_later(self._flushed)
        except Exception as error:
            logger.exception("flush cannot begin", log=str(self.name))
            failure = DiskError(str(self.name), f"flush cannot begin: {error}")
            self._timer.after(0, lambda: self._flushed(failure))

    def _flushed(self, error: DiskError | None) -> None:
        self._flushing = False
        try:
            self._after_flush(error)
        finally:
            self._rounds.settled()

    def _after_flush(self, error: DiskError | None) -> None:
        if self._is_closed:
            return
        if error is not None:
            self._fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
            return
        if not self.commits_on_flush:
            if self.log.unflushed_messages:
                self._flush_if_due()
        else:
            self._advance()
            if self.log.flushed_offset < self.log.end_offset and not self._flushing:
                if self._waiting or self._readers:
                    self._flush()
                elif self._flush_timer is None:
                    self._flush_timer = self._timer.after(QUIET_FLUSH_MS, self._quiet_flush)

    def _advance(self) -> None:
        log = self.log
        committed = log.flushed_offset if self.commits_on_flush else log.end_offset
        if committed <= self.high_watermark:
            return
        self.high_watermark = log.high_watermark = Offset(committed)
        waiting = self._waiting
        while waiting and waiting[0][0] <= committed:
            _tell(waiting.popleft()[1], None)
        if self._readers:
            for reader in tuple(self._readers):
                reader.look_again()

    def _fail(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, action in waiting:
            _tell(action, error)
        for reader in tuple(self._readers):
            reader.look_again()


def _tell(action: Committed, error: KafkaError | None) -> None:
    """One who cannot be told must not keep the others from being told."""
    try:
        action(error)
    except Exception:
        logger.exception("a waiting request broke")
