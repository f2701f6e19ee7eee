"""One partition replica: its log, its role and leader epoch, and waiters for its high watermark.

Promise: while this replica leads, the high watermark moves only over records that every in-sync
replica has flushed (with `flush.policy=os`: written) and never back. A waiter for an offset is
called once, and belongs to the leader epoch in which it began to wait: it fails when that epoch
ends, because a later leader may have replaced its records.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from sawlog.cluster.metadata_image import NO_EPOCH, NO_NODE, PartitionImage
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import LeaderEpoch, NodeId, Offset, TopicId, TopicPartition
from sawlog.core.ports import DiskError, FileSlice
from sawlog.protocol.record_batch import BatchHeader
from sawlog.replication.follower import Follower
from sawlog.replication.follower_progress import FollowerFetch, FollowerProgress
from sawlog.replication.isolation_level import IsolationLevel
from sawlog.replication.leader import Leader, ReplicationContext
from sawlog.replication.roles import Event, Role, next_role
from sawlog.storage.append_origin import AppendOrigin
from sawlog.storage.appended import Appended
from sawlog.storage.log import Log
from sawlog.storage.log_config import FOREVER
from sawlog.storage.open_transactions import AbortedTransaction
from sawlog.storage.transaction_verification import VerificationGuard

logger = EventLogger(__name__)

QUIET_FLUSH_MS = 50
"""How long written records may stay unflushed while no request waits for them.

A waiting request (acks=all, a fetch at the high watermark, ListOffsets) starts a flush at once; the
delay saves a producer with acks=1 one fdatasync per batch.
"""

OnCommitted = Callable[[KafkaError | None], None]


class OffsetListener(Protocol):
    """A parked Fetch, which is retried when the offset moves that it waits for."""

    def offset_moved(self) -> None:
        """The offset has moved, or the replica has changed its role, failed or closed."""


class Replica:
    """One copy of a partition.

    Invariants: start_offset <= high_watermark <= end_offset; `leader` is set while the role is
    LEADER; `_waiting` is empty unless the replica leads, is ordered by offset and holds only
    offsets above the high watermark.
    """

    __slots__ = (
        "_context",
        "_deletions",
        "_flush",
        "_listeners",
        "_log_end_listeners",
        "_waiting",
        "commits_on_flush",
        "follower",
        "leader",
        "leader_epoch",
        "leader_id",
        "log",
        "name",
        "node_id",
        "role",
        "topic_id",
    )

    def __init__(
        self, log: Log, name: TopicPartition, topic_id: TopicId, context: ReplicationContext
    ) -> None:
        self.log = log
        self.name = name
        self.topic_id = topic_id
        self._context = context
        self.node_id = context.node_id
        self.commits_on_flush = context.commits_on_flush
        self.role = Role.IDLE
        self.leader_id = NO_NODE
        self.leader_epoch = LeaderEpoch(-1)
        self.leader: Leader | None = None
        self.follower: Follower | None = None
        self._flush = log.flush
        self._flush.listen(self._flushed)
        self._waiting: deque[tuple[int, OnCommitted]] = deque()
        self._listeners: dict[OffsetListener, None] = {}
        self._log_end_listeners: dict[OffsetListener, None] = {}
        self._deletions: list[tuple[int, OnCommitted]] = []

    @property
    def high_watermark(self) -> Offset:
        """The high watermark, which the log keeps: truncation lowers it, checkpoints store it."""
        return Offset(self.log.high_watermark)

    # Roles

    def lead(self, epoch: LeaderEpoch, image: PartitionImage) -> None:
        """Lead from now on in `epoch`, which is on disk before its first append."""
        if not self._enter(Event.LEAD, epoch, self.node_id):
            return
        if self.leader is None:
            self.log.assign_epoch(epoch)
            self.leader = Leader(
                self.name,
                self.topic_id,
                image,
                self._context,
                start_offset=self.log.end_offset,
                isr_changed=self._isr_changed,
            )
        elif self.leader.adopt(image):
            _wake(self._log_end_listeners)
        self._check_commits()
        self._request_flush()

    def follow(self, epoch: LeaderEpoch, leader: NodeId, *, unclean_epoch: int = NO_EPOCH) -> None:
        """Follow `leader` in `epoch`; `unclean_epoch` is that of the last unclean election."""
        if self._enter(Event.FOLLOW, epoch, leader) and self.follower is None:
            self.follower = Follower(
                self.log,
                leader,
                epoch,
                commits_on_flush=self.commits_on_flush,
                unclean_epoch=unclean_epoch,
                high_watermark_moved=self._wake_listeners,
            )
            self.follower.request_flush(is_awaited=False)

    def lose_leader(self, epoch: LeaderEpoch) -> None:
        """The partition has no leader: serve nothing until it has one."""
        self._enter(Event.LOSE_LEADER, epoch, NO_NODE)

    def _enter(self, event: Event, epoch: LeaderEpoch, leader: NodeId) -> bool:
        """Take the role that `event` leads to; False if `epoch` is older than the replica's. A
        change of role or epoch ends the waits of the old one."""
        if epoch < self.leader_epoch:
            return False
        is_new_epoch = epoch > self.leader_epoch
        role = next_role(self.role, event, is_new_epoch=is_new_epoch)
        if role is not self.role or is_new_epoch:
            self._end_role()
            self.role = role
            self.leader_epoch = epoch
            self.leader_id = leader
            self._fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return True

    def _end_role(self) -> None:
        if self.leader is not None:
            self.leader.end()
            self.leader = None
        self.follower = None

    def check_epoch(self, current: int) -> None:
        """Reject a client that expects an older or newer leader epoch (KIP-320)."""
        if current >= 0 and current != self.leader_epoch:
            if current < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def check_min_in_sync(self) -> None:
        """NOT_ENOUGH_REPLICAS if the in-sync set is smaller than `min.insync.replicas`."""
        required = self.log.config.min_insync_replicas
        in_sync = 0 if self.leader is None else len(self.leader.in_sync.stored)
        if in_sync < required:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {in_sync} is insufficient to satisfy the "
                f"min.isr requirement of {required} for partition {self.name}",
            )

    @property
    def last_stable_offset(self) -> Offset:
        """The end of what read_committed consumers may read."""
        return Offset(self.log.last_stable_offset)

    @property
    def has_current_watermark(self) -> bool:
        """Whether the high watermark is at or above the start of the epoch: below it, a former
        leader may have told clients a higher one (KIP-207)."""
        return self.leader is None or self.log.high_watermark >= self.leader.start_offset

    # Appending and committing

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        is_awaited: bool = False,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> Appended:
        """Append one validated batch (`Log.append`). With `is_awaited` the caller is going to wait
        for its commit (`when_committed`), and the flush begins now."""
        if self.leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        appended = self.log.append(
            batch, header, self.leader_epoch, origin, guard, transaction_version
        )
        if not self.commits_on_flush:
            self._advance()
            self._flush_if_due()
        elif is_awaited or self._listeners:
            self._flush.request(self.log.end_offset)
        else:
            self._flush.request_within(QUIET_FLUSH_MS)
        if self._log_end_listeners:
            _wake(self._log_end_listeners)
        return appended

    def when_committed(self, offset: int, action: OnCommitted) -> None:
        """Call `action` once the high watermark is at or beyond `offset`; now, if it is already.
        It gets NOT_LEADER_OR_FOLLOWER if this replica does not lead, or when its epoch ends, and
        NOT_ENOUGH_REPLICAS_AFTER_APPEND if the in-sync set becomes too small."""
        if self.leader is None:
            action(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        if self.log.high_watermark >= offset:
            action(None)
            return
        waiting = self._waiting
        if waiting and waiting[-1][0] > offset:  # a duplicate: newer batches wait already
            offset = waiting[-1][0]
        waiting.append((offset, action))
        if self.commits_on_flush:
            self._flush.request(offset)
        if self._log_end_listeners:
            _wake(self._log_end_listeners)  # followers flush at once while a request waits

    def watch(self, listener: OffsetListener) -> None:
        """Call `listener` at every move of the high watermark, until `unwatch`."""
        self._listeners[listener] = None
        self._request_flush()
        if self._log_end_listeners:
            _wake(self._log_end_listeners)

    def watch_log_end(self, listener: OffsetListener) -> None:
        """Call `listener`, of a follower, until `unwatch` when the answer to its fetch may have
        changed: the log end offset, the high watermark or the log start offset moved, a request
        begins to wait, or the in-sync set, the assignment or the live brokers changed."""
        self._log_end_listeners[listener] = None

    def unwatch(self, listener: OffsetListener) -> None:
        self._listeners.pop(listener, None)
        self._log_end_listeners.pop(listener, None)

    @property
    def is_awaited(self) -> bool:
        """Whether a request waits for the commit of what is written."""
        return self.log.high_watermark < self.log.end_offset and bool(
            self._waiting or self._listeners
        )

    # Followers

    def fetched(self, fetch: FollowerFetch) -> None:
        """Record the progress of a follower whose log agrees with this one up to its fetch offset;
        NOT_LEADER_OR_FOLLOWER if it comes from an earlier process."""
        leader = self.leader
        assert leader is not None
        leader.fetched(fetch, leader_end_offset=self.log.end_offset)
        leader.expand(fetch.node, self.log.high_watermark)
        self._advance()
        if self._deletions:
            self._complete_deletions()

    def settled(self, node: NodeId) -> FollowerProgress | None:
        """The progress of a follower to which nothing is left to do; None of any other. It has
        everything, all of which is committed, and it is in the in-sync set: until a listener of the
        log end is called, another fetch from the same offsets only shows that it is alive."""
        if self.leader is None or self.log.high_watermark < self.log.end_offset:
            return None
        return self.leader.settled(node, self.log.end_offset)

    def check_in_sync_set(self) -> None:
        """Remove followers that are not caught up from the in-sync set."""
        if self.leader is not None:
            self.leader.shrink(self.log.end_offset)

    def brokers_changed(self) -> None:
        """The set of live brokers has changed: deletions do not wait for dead ones."""
        _wake(self._log_end_listeners)
        if self._deletions:
            self._complete_deletions()

    def _isr_changed(self) -> None:
        """The leader has changed the in-sync set."""
        _wake(self._log_end_listeners)
        self._check_commits()

    def _check_commits(self) -> None:
        """After a change of the in-sync set the high watermark may advance (KAFKA-13091), or the
        records of waiters have too few replicas."""
        self._advance()
        if self._waiting and self.is_under_min_isr:
            self._fail_waiters(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether it leads with fewer in-sync replicas than `min.insync.replicas`, or than all
        replicas if those are fewer: nothing is committed then, as in Kafka since KIP-966."""
        return self.leader is not None and self.leader.is_under_min_isr(
            self.log.config.min_insync_replicas
        )

    @property
    def can_commit_alone(self) -> bool:
        """Whether a flush of this replica commits everything that is written."""
        return self.leader is not None and self.leader.is_sole and not self.is_under_min_isr

    def close(self, error: KafkaError) -> None:
        """Close the replica: waiters for committed offsets succeed, the others get `error`.

        When a broker stops, the log was flushed and closed before.
        """
        self._flush.listen(None)
        self._advance()
        self.role = next_role(self.role, Event.CLOSE, is_new_epoch=False)
        self._end_role()
        self._fail(error)

    # Reading

    def readable_end(self, isolation: IsolationLevel) -> Offset:
        """The end of what a consumer may read: high watermark or last stable offset."""
        if isolation is IsolationLevel.READ_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        whole_first_batch: bool,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> FileSlice | None:
        """A slice of committed records that begins with the batch that holds `offset`."""
        return self.log.read(
            offset,
            max_bytes,
            limit_offset=self.readable_end(isolation),
            whole_first_batch=whole_first_batch,
        )

    def aborted_in(self, offset: int, piece: FileSlice) -> list[AbortedTransaction]:
        """The aborted transactions with records in a slice of committed records, which `read` has
        returned for `offset`, and perhaps some that begin soon after it."""
        log = self.log
        end_offset = log.segments.offset_after(piece, offset, log.end_offset)
        return log.aborted_transactions(offset, min(end_offset, log.last_stable_offset))

    def delete_before(self, offset: int) -> Offset:
        """Move the log start offset (DeleteRecords); -1 means the high watermark. Returns it."""
        target = self.high_watermark if offset == -1 else offset
        if target > self.high_watermark or target < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if target > self.log.start_offset:
            self.log.advance_start(target)
            _wake(self._log_end_listeners)
        return Offset(self.log.start_offset)

    def apply_retention(self, now_ms: int) -> None:
        """Remove expired segments below the high watermark."""
        start_offset = self.log.start_offset
        try:
            self.log.apply_retention(now_ms, self.high_watermark)
        finally:
            if self.log.start_offset != start_offset:
                _wake(self._log_end_listeners)

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of the live replicas."""
        own = self.log.start_offset
        return own if self.leader is None else self.leader.low_watermark(own)

    def when_deleted(self, offset: int, action: OnCommitted) -> None:
        """Call `action` once no live replica has records below `offset`; now, if it is so."""
        if self.low_watermark >= offset:
            action(None)
        else:
            self._deletions.append((offset, action))
            _wake(self._log_end_listeners)

    def _complete_deletions(self) -> None:
        low_watermark = self.low_watermark
        deletions, self._deletions = self._deletions, []
        for offset, action in deletions:
            if offset <= low_watermark:
                _call(action, None)
            else:
                self._deletions.append((offset, action))

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
            if self.log.flushed_offset < self.log.end_offset:
                self._flush_if_due()
            return
        self._advance()
        if self.log.flushed_offset < self.log.end_offset:
            if self._waiting or self._listeners:
                self._flush.request(self.log.end_offset)
            else:
                self._flush.request_within(QUIET_FLUSH_MS)
        if self.follower is not None:
            self.follower.flushed()

    def _advance(self) -> None:
        """Move the high watermark to what the in-sync replicas have, and call its waiters."""
        log = self.log
        leader = self.leader
        if leader is None:
            return
        committed = log.flushed_offset if self.commits_on_flush else log.end_offset
        if leader.followers or not leader.is_sole:
            if self.is_under_min_isr:
                return
            committed = leader.committed_offset(committed, log.end_offset)
        if committed <= log.high_watermark:
            return
        log.set_high_watermark(committed)
        waiting = self._waiting
        while waiting and waiting[0][0] <= committed:
            _call(waiting.popleft()[1], None)
        self._wake_listeners()

    def _wake_listeners(self) -> None:
        """Wake all parked fetches."""
        if self._listeners:
            _wake(self._listeners)
        if self._log_end_listeners:
            _wake(self._log_end_listeners)

    def _fail(self, error: KafkaError) -> None:
        self._fail_waiters(error)
        deletions, self._deletions = self._deletions, []
        for _, action in deletions:
            _call(action, error)
        self._wake_listeners()

    def _fail_waiters(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, action in waiting:
            _call(action, error)


def _wake(listeners: dict[OffsetListener, None]) -> None:
    for listener in tuple(listeners):
        listener.offset_moved()


def _call(action: OnCommitted, error: KafkaError | None) -> None:
    """Call a waiter; one that raises must not keep the others waiting."""
    try:
        action(error)
    except Exception:
        logger.exception("a waiter for the high watermark failed")
