"""The leader's side of a partition: the progress of its followers and its in-sync set.

Pure bookkeeping: offsets and times come in as numbers, changes of the in-sync set go out through
the IsrWriter. A follower joins the set after it fetched in this leader epoch and reached both the
high watermark and the start offset of the epoch (KAFKA-7128); it leaves when it was not caught up
for `replica.lag.time.max.ms`. With `flush.policy=commit` both are measured by flushed offsets.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from sawlog.cluster.isr_changes import IsrWriteError
from sawlog.cluster.metadata_image import BrokerImage, InSyncMember, PartitionImage
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import LeaderEpoch, NodeId, TopicId, TopicPartition
from sawlog.core.ports import Clock, Timer
from sawlog.replication.follower_progress import NEVER_MS, FollowerFetch, FollowerProgress
from sawlog.replication.in_sync_set import InSyncSet
from sawlog.replication.isr_writer import IsrWriter

logger = EventLogger(__name__)

LIVE_MS = 2_000
"""A follower fetches again after replica.fetch.wait.max.ms, 500 ms by default, and after a corrupt
batch after replica.fetch.backoff.ms, a second by default."""
ISR_RETRY_MS = 500
"""Delay before a change of an in-sync set is written again that failed."""


@dataclass(slots=True)
class IsrTotals:
    """Changes of in-sync sets since the start of the broker."""

    shrinks: int = 0
    expands: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class ReplicationContext:
    """What all replicas of a broker share."""

    node_id: NodeId
    clock: Clock
    timer: Timer
    live_brokers: Callable[[], Mapping[NodeId, BrokerImage]]
    """The brokers of the newest image."""
    commits_on_flush: bool
    """Whether only flushed records are committed (`flush.policy=commit`)."""
    lag_max_ms: Callable[[], int] = lambda: 30_000
    """`replica.lag.time.max.ms`."""
    isr_writer: IsrWriter | None = None
    """Without one the in-sync sets never change."""
    is_suspended: Callable[[], bool] = lambda: False
    """Whether the session of the coordination store is interrupted: then a leader begins no change
    of an in-sync set, and goes on with the one that it has."""
    totals: IsrTotals = field(default_factory=IsrTotals)


class Leader:
    """A replica that leads in one epoch.

    Invariants: at most one change of the in-sync set is being written; `followers` has the other
    replicas of the assignment; all progress is of this leader epoch.
    """

    __slots__ = (
        "_by_flush",
        "_context",
        "_epoch",
        "_has_foreign_member",
        "_isr_changed",
        "_maximal",
        "_name",
        "_replicas",
        "_topic_id",
        "followers",
        "in_sync",
        "start_offset",
    )

    def __init__(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        image: PartitionImage,
        context: ReplicationContext,
        *,
        start_offset: int,
        isr_changed: Callable[[], None],
    ) -> None:
        """`start_offset` is the log end offset at which the epoch begins. `isr_changed` is called
        when the stored in-sync set has changed by this leader's own doing."""
        self._name = name
        self._topic_id = topic_id
        self._epoch: LeaderEpoch = image.leader_epoch
        self._context = context
        self._by_flush = context.commits_on_flush
        self._isr_changed = isr_changed
        self.start_offset = start_offset
        self.followers: dict[NodeId, FollowerProgress] = {}
        self._replicas = image.replicas
        self._set_in_sync(InSyncSet.of(image))
        self._follow_assignment(image.replicas)

    def end(self) -> None:
        """The epoch is over: no change of the in-sync set is tried again."""
        self._set_in_sync(InSyncSet(self.in_sync.stored, self.in_sync.partition_epoch))

    # Images

    def adopt(self, image: PartitionImage) -> bool:
        """Take over assignment and in-sync set of a newer image of the same leader epoch; returns
        whether they differ from those before. A member that restarted counts with nothing until its
        new process has fetched."""
        before = self.in_sync, self._replicas
        self._set_in_sync(self.in_sync.adopt(image))
        for member in self.in_sync.stored:
            progress = self.followers.get(member.node)
            if progress is not None and 0 <= progress.broker_epoch < member.broker_epoch:
                progress.restarted(member.broker_epoch, is_member=True)
        self._follow_assignment(image.replicas)
        return before != (self.in_sync, self._replicas)

    def _follow_assignment(self, replicas: tuple[NodeId, ...]) -> None:
        self._replicas = replicas
        own = self._context.node_id
        now_ms = self._context.clock.monotonic_ms()
        for node in [node for node in self.followers if node not in replicas]:
            del self.followers[node]
        for node in replicas:
            if node != own and node not in self.followers:
                caught_up_ms = now_ms if node in self._maximal else NEVER_MS
                self.followers[node] = FollowerProgress(caught_up_ms)
        self._set_in_sync(self.in_sync)

    def _set_in_sync(self, in_sync: InSyncSet) -> None:
        self.in_sync = in_sync
        self._maximal = in_sync.maximal_isr()
        # A member that is not in the assignment any more has to leave before anything is committed.
        self._has_foreign_member = not self._maximal.issubset(self._replicas)

    # The in-sync set

    @property
    def isr(self) -> tuple[NodeId, ...]:
        """The nodes of the stored in-sync set."""
        return self.in_sync.nodes()

    def maximal_isr(self) -> frozenset[NodeId]:
        return self._maximal

    @property
    def is_sole(self) -> bool:
        """Whether the leader is the whole in-sync set, so that its own flush commits."""
        return len(self._maximal) == 1

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync.stored) < len(self._replicas)

    def is_under_min_isr(self, min_in_sync: int) -> bool:
        """Whether there are fewer members than `min_in_sync`, or than all replicas."""
        return len(self.in_sync.stored) < min(min_in_sync, len(self._replicas))

    # Fetches of followers

    def check_follower(self, node: NodeId, *, has_epoch: bool) -> None:
        """Reject a replica that is not in the assignment. Its own metadata may be newer than ours:
        it retries after UNKNOWN_LEADER_EPOCH."""
        if node not in self.followers:
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if has_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Node {node} is no replica of {self._name} in leader epoch {self._epoch}.",
            )

    def fetched(self, fetch: FollowerFetch, *, leader_end_offset: int) -> None:
        """Record the progress of a follower; NOT_LEADER_OR_FOLLOWER and nothing changed if the
        fetch is of an earlier process of its broker (KIP-903)."""
        progress = self.followers[fetch.node]
        live = self._context.live_brokers().get(fetch.node)
        newest = max(progress.broker_epoch, -1 if live is None else live.epoch)
        if 0 <= fetch.broker_epoch < newest:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"The fetch has broker epoch {fetch.broker_epoch}; expected is {newest}.",
            )
        now_ms = self._context.clock.monotonic_ms()
        if progress.broker_epoch >= 0 and fetch.broker_epoch != progress.broker_epoch:
            progress.restarted(fetch.broker_epoch, is_member=fetch.node in self._maximal)
        progress.fetched(
            fetch, leader_end_offset=leader_end_offset, by_flush=self._by_flush, now_ms=now_ms
        )

    def committed_offset(self, own_offset: int, leader_end_offset: int) -> int:
        """The offset that all members of the maximal in-sync set have reached. A follower that is
        about to join is waited for, too: else it would never reach a moving high watermark.

        `own_offset` is the leader's own: flushed or written.
        """
        committed = own_offset
        by_flush = self._by_flush
        for node, progress in self.followers.items():
            reached = progress.reached(by_flush=by_flush)
            if reached < committed and (
                node in self._maximal or self._is_joining(node, progress, leader_end_offset)
            ):
                committed = reached
        return -1 if self._has_foreign_member else committed

    def _is_joining(self, node: NodeId, progress: FollowerProgress, leader_end_offset: int) -> bool:
        context = self._context
        return (
            progress.has_fetched
            and self._is_alive(node, progress)
            and progress.is_caught_up(
                leader_end_offset,
                by_flush=self._by_flush,
                lag_max_ms=context.lag_max_ms(),
                now_ms=context.clock.monotonic_ms(),
            )
        )

    def _is_alive(self, node: NodeId, progress: FollowerProgress) -> bool:
        """Whether the process that fetches is the registered one and is not shutting down."""
        broker = self._context.live_brokers().get(node)
        return (
            broker is not None
            and not broker.is_shutting_down
            and broker.epoch == progress.broker_epoch
        )

    def settled(self, node: NodeId, leader_end_offset: int) -> FollowerProgress | None:
        """The progress of a follower that has everything and is in the in-sync set under its broker
        epoch, which no change under way concerns; None of any other."""
        progress = self.followers.get(node)
        member = self.in_sync.member(node)
        if (
            progress is None
            or member is None
            or self.in_sync.pending is not None
            or member.broker_epoch not in (-1, progress.broker_epoch)
            or progress.reached(by_flush=self._by_flush) < leader_end_offset
        ):
            return None
        return progress

    def low_watermark(self, own_start_offset: int) -> int:
        """The smallest log start offset of the live replicas: no record below it can be read."""
        brokers = self._context.live_brokers()
        return min(
            own_start_offset,
            min(
                (p.start_offset for node, p in self.followers.items() if node in brokers),
                default=own_start_offset,
            ),
        )

    @property
    def has_live_member(self) -> bool:
        """Whether another member of the stored set, which has all that was committed, fetches."""
        now_ms = self._context.clock.monotonic_ms()
        return any(
            progress.has_fetched
            and now_ms - progress.fetched_ms <= LIVE_MS
            and self._is_alive(node, progress)
            for node, progress in self.followers.items()
            if self.in_sync.member(node) is not None
        )

    # Changes of the in-sync set

    def expand(self, node: NodeId, high_watermark: int) -> None:
        """Begin to add a follower to the in-sync set if it may join. The entry of a member that
        restarted and caught up again gets its new broker epoch."""
        if not self._may_change():
            return
        progress = self.followers[node]
        member = self.in_sync.member(node)
        if member is not None and member.broker_epoch in (-1, progress.broker_epoch):
            return
        reached = progress.reached(by_flush=self._by_flush)
        if (
            not progress.has_fetched
            or reached < max(high_watermark, self.start_offset)
            or not self._is_alive(node, progress)
        ):
            return
        broker = self._context.live_brokers()[node]
        self._begin(
            self.in_sync.adding(InSyncMember(node, broker.epoch, broker.directory_id)),
            joined=node if member is None else None,
        )

    def shrink(self, leader_end_offset: int) -> None:
        """Begin to remove the members that were not caught up for too long."""
        if not self._may_change():
            return
        context = self._context
        now_ms, lag_max_ms = context.clock.monotonic_ms(), context.lag_max_ms()
        slow = frozenset(
            node
            for node in self.in_sync.nodes()
            if node != context.node_id
            and (
                (progress := self.followers.get(node)) is None
                or not progress.is_caught_up(
                    leader_end_offset,
                    by_flush=self._by_flush,
                    lag_max_ms=lag_max_ms,
                    now_ms=now_ms,
                )
            )
        )
        if slow:
            self._begin(self.in_sync.removing(slow), left=slow)

    def _may_change(self) -> bool:
        context = self._context
        return (
            context.isr_writer is not None
            and self.in_sync.pending is None
            and not context.is_suspended()
        )

    def _begin(
        self,
        change: InSyncSet,
        *,
        joined: NodeId | None = None,
        left: frozenset[NodeId] = frozenset(),
    ) -> None:
        logger.info(
            "in-sync set changes",
            log=str(self._name),
            leader_epoch=self._epoch,
            stored=self.in_sync.nodes(),
            joined=joined,
            left=sorted(left),
        )
        self._context.totals.expands += joined is not None
        self._context.totals.shrinks += bool(left)
        self._set_in_sync(change)
        self._write(change)

    def _write(self, change: InSyncSet) -> None:
        """Write the pending members, or the stored ones again if those may not join any more. Only
        a newer partition epoch decides the change: an earlier write of it may have happened."""
        writer = self._context.isr_writer
        if self.in_sync is not change or writer is None or change.pending is None:
            return  # an image has decided the change
        added = [member for member in change.pending if member not in change.stored]
        members = change.pending if all(map(self._may_join, added)) else change.stored
        writer.write_isr(
            self._name,
            self._topic_id,
            self._epoch,
            members,
            change.partition_epoch,
            partial(self._written, change, members),
        )

    def _may_join(self, member: InSyncMember) -> bool:
        progress = self.followers.get(member.node)
        return (
            progress is not None
            and progress.broker_epoch == member.broker_epoch
            and self._is_alive(member.node, progress)
        )

    def _written(
        self, change: InSyncSet, members: tuple[InSyncMember, ...], result: int | IsrWriteError
    ) -> None:
        if self.in_sync is not change:
            return
        if isinstance(result, int):
            self._set_in_sync(InSyncSet(members, result))
            self._isr_changed()
            return
        self._context.totals.failures += 1
        self._context.timer.after(ISR_RETRY_MS, partial(self._write, change))
