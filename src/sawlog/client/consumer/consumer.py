"""A consumer of partitions that it is assigned by the caller or by its group.

Fetches run ahead of the records handed out (`assigned_partitions`). A thread of its own keeps a
member of a group alive (`membership`); rebalances are carried out within `poll`. For one thread,
except for `wakeup`, `close` and message streams.
"""

import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.consumer.assigned_partitions import AssignedPartitions
from sawlog.client.consumer.fetched_records import ConsumedRecord
from sawlog.client.consumer.fetcher import FetchLimits
from sawlog.client.consumer.isolation import Isolation, reads_committed
from sawlog.client.consumer.membership.rebalance_listener import RebalanceListener
from sawlog.client.consumer.message_streams import MessageStream, MessageStreams, RecordSource
from sawlog.client.consumer.start_positions import (
    AT_EARLIEST,
    AT_LATEST,
    RESET_STARTS,
    AtOffset,
    AtTime,
    OffsetReset,
    Start,
)
from sawlog.client.fork_guard import ForkGuard
from sawlog.client.net.cluster import Cluster, as_cluster
from sawlog.client.net.retries import Deadline
from sawlog.client.net.wakeup import Wakeup
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicName, TopicPartition

if TYPE_CHECKING:  # pyarrow is an extra; the others are needed in groups only
    import pyarrow as pa

    from sawlog.client.admin.group_offsets import Committed, GroupMetadata
    from sawlog.client.consumer.membership.group_membership import GroupMembership
    from sawlog.client.consumer.membership.membership_protocol import GroupSettings
    from sawlog.client.consumer.membership.offset_commits import CommitCallback

__all__ = [
    "AT_EARLIEST",
    "AT_LATEST",
    "DEFAULT_MAX_DECOMPRESSED_BYTES",
    "AtOffset",
    "AtTime",
    "Consumer",
    "OffsetReset",
    "Start",
]

DEFAULT_MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024
DEFAULT_AUTO_COMMIT_MS = 5_000
DEFAULT_POLL_MS = 1_000
_CLOSED = "the consumer is closed"


class Consumer:
    """Reads records of assigned partitions, alone or as a member of a group.

    `cluster` is a Cluster, or addresses of brokers, whose connections are closed with the consumer.

    `group` (a name, or GroupSettings) enables `subscribe` and commits. Records of earlier polls are
    committed every `auto_commit_ms`, before partitions are revoked and on close; None leaves
    commits to `commit`. An application that processes the records of a poll before the next poll
    loses none. `offset_reset` (auto.offset.reset) is the policy if there is no committed offset or
    the log does not have it: by default earliest in a group, and an error otherwise. `isolation`
    "read_committed" leaves out open and aborted transactions.

    `max_bytes` bounds a fetch response, `partition_max_bytes` one partition in it; a larger batch
    is returned whole.
    """

    def __init__(
        self,
        cluster: Cluster | str | Sequence[str],
        *,
        group: "str | GroupSettings | None" = None,
        auto_commit_ms: float | None = DEFAULT_AUTO_COMMIT_MS,
        isolation: Isolation = "read_uncommitted",
        offset_reset: OffsetReset | None = None,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    ) -> None:
        self._cluster = as_cluster(cluster)
        self._owns_cluster = self._cluster is not cluster
        if offset_reset is None:
            offset_reset = OffsetReset.FAIL if group is None else OffsetReset.EARLIEST
        self._offset_reset = offset_reset
        read_committed = reads_committed(isolation)
        self._partitions = AssignedPartitions(
            self._cluster,
            FetchLimits(max_wait_ms, min_bytes, max_bytes, partition_max_bytes),
            read_committed=read_committed,
            offset_reset=offset_reset,
            max_decompressed_bytes=max_decompressed_bytes,
        )
        self._fork_guard = ForkGuard()
        # `close` and message streams wait for a poll in progress.
        self._poll_lock = threading.RLock()
        self._wakeup = Wakeup()
        self._is_woken = False
        self._is_closed = False
        self._streams: MessageStreams | None = None
        self._session = (
            None if group is None else self._new_session(group, auto_commit_ms, read_committed)
        )
        if self._owns_cluster:
            weakref.finalize(self, self._cluster.close)

    def _new_session(
        self, group: "str | GroupSettings", auto_commit_ms: float | None, require_stable: bool
    ) -> "GroupMembership":
        """Return the group of this consumer. ZooKeeperConsumer has another kind."""
        from sawlog.client.consumer.membership.group_session import GroupSession

        self._cluster.close_with(self)
        return GroupSession(
            self._cluster,
            group,
            self._partitions,
            self._begin,
            self._wakeup,
            auto_commit_ms=auto_commit_ms,
            require_stable=require_stable,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        self.close(commits=error_type is None)

    def close(self, *, commits: bool = True) -> None:
        """Leave the group, after a last commit if auto-commit is on, and end message streams.

        Safe to call from any thread.
        """
        if not self._fork_guard.is_same_process:
            return  # the parent process goes on with it
        if self._streams is not None:
            self._streams.end()
        self.wakeup()
        with self._poll_lock:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                if self._session is not None:
                    self._session.close(commits=commits)
            finally:
                self._wakeup.close()
                if self._owns_cluster:
                    self._cluster.close()

    def abandon(self) -> None:
        """Close without a commit, when the cluster is closed."""
        self.close(commits=False)

    # Assignment

    def assign(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Read these partitions, each from its start, instead of the former assignment."""
        if self._is_closed:
            raise ValueError(_CLOSED)
        if self._session is not None and self._session.is_subscribed:
            raise ValueError("the group assigns the partitions; call unsubscribe before assign")
        positions = self._partitions.resolve(starts)
        self._partitions.remove(list(self._partitions.positions))
        self._partitions.set_positions(positions)

    def assign_topic(self, topic: str, start: Start) -> None:
        """Assign all current partitions of a topic."""
        partitions = self._cluster.topic(topic).partitions
        self.assign({TopicPartition(TopicName(topic), index): start for index in partitions})

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read what the group assigns of these topics, instead of the former subscription.

        `pattern` (RE2) subscribes to all topics whose whole name it matches. The rebalance happens
        within `poll`.
        """
        names = frozenset([topics] if isinstance(topics, str) else topics)
        if not names and not pattern:
            raise ValueError("name topics or a pattern; to leave the group, call unsubscribe")
        session = self._require_session()
        if not session.is_subscribed:
            self._partitions.remove(list(self._partitions.positions))
        session.subscribe(names, pattern, listener or RebalanceListener())

    def unsubscribe(self) -> None:
        """Leave the group."""
        self._require_session().unsubscribe()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are assigned now."""
        owned = frozenset[TopicPartition]() if self._session is None else self._session.owned
        return owned | self._partitions.positions.keys()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`; they stay assigned."""
        self._partitions.pause(self._assigned(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._partitions.resume(self._assigned(partitions))

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return self._partitions.paused

    # Positions

    def check_positions(self) -> None:
        """Apply `offset_reset` now to positions that the logs do not have.

        For a caller that stops at an end offset: with a position after it, it would never fetch.
        """
        firsts = list_offsets(self._cluster, dict.fromkeys(self.positions, EARLIEST))
        ends = list_offsets(self._cluster, dict.fromkeys(self.positions, LATEST))
        for partition, position in self.positions.items():
            if not firsts[partition].offset <= position <= ends[partition].offset:
                self._partitions.reset_position(partition)

    def seek(self, partition: TopicPartition, start: Start) -> None:
        self._assigned([partition])
        self._partitions.set_positions(self._partitions.resolve({partition: start}))
        if self._session is not None:
            self._session.position_set(partition)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record that `poll` will return."""
        self._assigned([partition])
        if self._session is not None:
            self._session.ensure_positions()
        return self._partitions.positions[partition]

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offset after the last record that `poll` returned, of each partition."""
        return dict(self._partitions.positions)

    def end(self, partition: TopicPartition) -> int | None:
        """Return the high watermark (or last stable offset) of the last fetch."""
        self._assigned([partition])
        return self._partitions.ends.get(partition)

    # Reading

    def poll(
        self, timeout_ms: float = DEFAULT_POLL_MS, *, max_records: int = 1_000
    ) -> list[ConsumedRecord]:
        """Return records as soon as there are some, in order within a partition.

        Empty after the timeout. KafkaError or ClientError if they cannot be fetched or read; no
        record is skipped.
        """
        records: list[ConsumedRecord] = []

        def take() -> bool:
            records.extend(self._partitions.take(max_records))
            return bool(records)

        self._poll(timeout_ms, take)
        return records

    def poll_arrow(
        self,
        timeout_ms: float = DEFAULT_POLL_MS,
        *,
        columns: Collection[str] | None = None,
        max_bytes: int = 32 * 1024 * 1024,
    ) -> "pa.RecordBatch":
        """As `poll`, but return fetched records of all partitions as one Arrow batch.

        `columns` are some of `ALL_FIELDS`. The batch ends with the record batch that brings it to
        `max_bytes`, and has no rows after the timeout.
        """
        from sawlog.client.arrow.record_columns import ALL_FIELDS, RecordColumns

        taken = RecordColumns(ALL_FIELDS.names if columns is None else columns, max_bytes=max_bytes)

        def take() -> bool:
            self._partitions.take_columns(taken)
            return bool(taken.rows)

        self._poll(timeout_ms, take)
        return taken.finish()

    def wakeup(self) -> None:
        """Let a waiting poll, or else the next one, return at once. Safe from any thread."""
        self._is_woken = True
        self._wakeup.signal()

    def message_streams(self, topic: str, count: int) -> list[MessageStream]:
        """Return `count` iterators over the topic's messages, each for a thread of its own.

        They block while there is no message and end when the consumer is closed. All messages of a
        partition come from one of them, in order.

        In a group the topic is shared with the other members, and auto-commit commits a message
        when its thread asks for the next one. Without a group they start at the earliest offset.
        """
        if self._streams is not None:
            raise ValueError("the consumer has message streams already; use another consumer")
        source = RecordSource(
            self._poll_for_streams,
            self.pause,
            self.resume,
            lambda: self.assignment,
            lambda: self._may_deliver,
        )
        self._streams = MessageStreams(source, count)
        if self._session is None:
            self.assign_topic(topic, RESET_STARTS.get(self._offset_reset, AT_EARLIEST))
        else:
            self._session.commit_progress_of(self._streams.progress)
            self.subscribe([topic], listener=self._streams.listener)
        return self._streams.streams

    def _poll_for_streams(self, timeout_ms: float) -> list[ConsumedRecord]:
        with self._poll_lock:
            return [] if self._is_closed else self.poll(timeout_ms)

    def _poll(self, timeout_ms: float, take: Callable[[], bool]) -> None:
        """Run until `take` finds records, the timeout is over or `wakeup` is called."""
        self._fork_guard.check("consumer")
        deadline = Deadline(timeout_ms)
        with self._poll_lock:
            while not self._is_closed:
                self._wakeup.clear()
                if self._session is not None:
                    self._session.poll_group(deadline)
                has_found = self._partitions.poll_once(lambda: self._may_deliver and take())
                if has_found or deadline.has_passed:
                    return
                if self._is_woken:
                    self._is_woken = False
                    return
                if not self._is_closed:  # a listener may close it
                    wait_ms = deadline.remaining_ms
                    if self._session is not None:
                        wait_ms = min(wait_ms, self._session.max_wait_ms)
                    self._partitions.wait(wait_ms, self._wakeup.fileno())
        raise ValueError(_CLOSED)

    @property
    def _may_deliver(self) -> bool:
        return self._session is None or self._session.may_deliver

    # Commits

    def commit(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets (of the next records to read), or the positions, and wait.

        CommitFailed if the partitions are not, or no longer, assigned to this member.
        """
        with self._poll_lock:
            deadline = Deadline(self._cluster.timeout_ms if timeout_ms is None else timeout_ms)
            self._require_session().commit(offsets, deadline)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        done: "CommitCallback" = lambda _, __: None,
    ) -> None:
        """As `commit`, but return at once.

        A later poll, commit or close calls `done` with the offsets and the error, or None.
        """
        with self._poll_lock:
            self._require_session().commit_async(offsets, done)

    @property
    def group_metadata(self) -> "GroupMetadata":
        """The group and this member of it, for `Producer.send_offsets`.

        CommitFailed if this consumer has subscribed and is not, or no longer, a member.
        """
        return self._require_session().group_metadata

    def committed(self, partitions: Iterable[TopicPartition]) -> "dict[TopicPartition, Committed]":
        """Return the group's committed offsets; partitions without one are left out."""
        return self._require_session().committed(partitions)

    def _require_session(self) -> "GroupMembership":
        if self._session is None:
            raise ValueError("the consumer has no group; set one: Consumer(..., group=NAME)")
        self._fork_guard.check("consumer")
        if self._session.is_closed:
            raise ValueError(_CLOSED)
        return self._session

    def _begin(self, committed: "Mapping[TopicPartition, Committed | None]") -> None:
        """Start assigned partitions at their committed offsets, or where the policy says."""
        starts: dict[TopicPartition, Start] = {}
        for partition, found in committed.items():
            policy = RESET_STARTS.get(self._offset_reset)
            start = policy if found is None else AtOffset(found.offset)
            if start is None:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"the group has no committed offset of {partition}, and offset_reset is FAIL;"
                    " commit one first, seek, or set EARLIEST or LATEST",
                )
            starts[partition] = start
        self._partitions.set_positions(self._partitions.resolve(starts))

    def _assigned(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        wanted = list(partitions)
        for partition in wanted:
            if partition not in self.assignment:
                raise ValueError(f"{partition} is not assigned; only {sorted(self.assignment)} are")
        return wanted
