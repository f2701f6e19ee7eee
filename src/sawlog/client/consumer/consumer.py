"""A consumer: of partitions that it is told, or of those that its group gives it.

Reading goes on ahead while records are handed out (`reading`); a group is kept alive by a thread of
its own (`membership`), and what it decides is carried out within `poll`. For one thread, but for
`wakeup`, `close` and what `message_streams` gives.
"""

import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.consumer.fetch_buffer import FetchBuffer
from sawlog.client.consumer.fetched_records import ConsumedRecord
from sawlog.client.consumer.fetcher import FetchLimits
from sawlog.client.consumer.membership.rebalance_listener import RebalanceListener
from sawlog.client.consumer.message_streams import MessageStream, MessageStreams, RecordSource
from sawlog.client.consumer.start_positions import (
    AT_EARLIEST,
    AT_LATEST,
    RESET_STARTS,
    AtOffset,
    AtTime,
    OutOfRange,
    Start,
)
from sawlog.client.fork_guard import ForkGuard
from sawlog.client.net.cluster import Cluster, as_cluster
from sawlog.client.net.retries import Deadline
from sawlog.client.net.wakeup import Wakeup
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicName, TopicPartition

if TYPE_CHECKING:  # an extra that only `poll_arrow` needs, and what only groups do
    import pyarrow as pa

    from sawlog.client.admin.group_offsets import Committed
    from sawlog.client.consumer.membership.group_session import GroupSession
    from sawlog.client.consumer.membership.membership_protocol import GroupSettings
    from sawlog.client.consumer.membership.offset_commits import CommitCallback

__all__ = [
    "AT_EARLIEST",
    "AT_LATEST",
    "DEFAULT_MAX_DECOMPRESSED_BYTES",
    "AtOffset",
    "AtTime",
    "Consumer",
    "OutOfRange",
    "Start",
]

DEFAULT_MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024
DEFAULT_AUTO_COMMIT_MS = 5_000
DEFAULT_POLL_MS = 1_000
_CLOSED = "the consumer is closed"


class Consumer:
    """`cluster` is a Cluster or addresses of brokers; in the second case it is closed with this.

    `group` (a name, or GroupSettings) makes `subscribe` and commits possible. Every
    `auto_commit_ms` what earlier polls have handed out is committed, and when partitions are given
    up or the consumer is closed; None leaves it to `commit`. Process what a poll gave before the
    next one, and nothing is lost. `out_of_range` says where to begin without a committed offset or
    where it is gone: by default at the earliest with a group, so that nothing is passed over, and
    an error without one.

    `max_bytes` bounds an answer, `partition_max_bytes` a partition's share of it; a batch that is
    larger comes whole nevertheless.
    """

    def __init__(
        self,
        cluster: Cluster | str | Sequence[str],
        *,
        group: "str | GroupSettings | None" = None,
        auto_commit_ms: float | None = DEFAULT_AUTO_COMMIT_MS,
        read_committed: bool = False,
        out_of_range: OutOfRange | None = None,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    ) -> None:
        self._cluster = as_cluster(cluster)
        self._owns_cluster = self._cluster is not cluster
        if out_of_range is None:
            out_of_range = OutOfRange.FAIL if group is None else OutOfRange.EARLIEST
        self._out_of_range = out_of_range
        self._fetch_buffer = FetchBuffer(
            self._cluster,
            FetchLimits(max_wait_ms, min_bytes, max_bytes, partition_max_bytes),
            read_committed=read_committed,
            out_of_range=out_of_range,
            max_decompressed_bytes=max_decompressed_bytes,
        )
        self._fork_guard = ForkGuard()
        self._poll_lock = (
            threading.RLock()
        )  # who closes, or reads a message stream, waits for a poll
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
    ) -> "GroupSession":
        from sawlog.client.consumer.membership.group_session import GroupSession

        self._cluster.close_with(self)
        return GroupSession(
            self._cluster,
            group,
            self._fetch_buffer,
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
        """Leaves the group, after a last commit where commits are made by themselves; message
        streams end. May be called from any thread.
        """
        if not self._fork_guard.is_same_process:
            return  # it goes on where it was made
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
        """Ends with the cluster: without a commit."""
        self.close(commits=False)

    # What to read

    def assign(self, starts: Mapping[TopicPartition, Start]) -> None:
        """From now on these partitions, each from its start, in place of those before."""
        if self._is_closed:
            raise ValueError(_CLOSED)
        if self._session is not None and self._session.is_subscribed:
            raise ValueError("partitions come from the group; unsubscribe before assigning some")
        positions = self._fetch_buffer.resolve(starts)
        self._fetch_buffer.remove(list(self._fetch_buffer.positions))
        self._fetch_buffer.set_positions(positions)

    def assign_topic(self, topic: str, start: Start) -> None:
        """All partitions that the topic has now."""
        partitions = self._cluster.topic(topic).partitions
        self.assign({TopicPartition(TopicName(topic), index): start for index in partitions})

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """From now on what the group gives of these topics, or of all whose whole name the pattern
        (RE2) matches, in place of those before. `poll` brings it about.
        """
        names = frozenset([topics] if isinstance(topics, str) else topics)
        if not names and not pattern:
            raise ValueError("name topics or a pattern; to leave the group there is unsubscribe")
        session = self._with_group()
        if not session.is_subscribed:
            self._fetch_buffer.remove(list(self._fetch_buffer.positions))
        session.subscribe(names, pattern, listener or RebalanceListener())

    def unsubscribe(self) -> None:
        """Leaves the group."""
        self._with_group().unsubscribe()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What is read now."""
        owned = frozenset[TopicPartition]() if self._session is None else self._session.owned
        return owned | self._fetch_buffer.positions.keys()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hands out nothing of these until `resume`; they stay assigned."""
        self._fetch_buffer.pause(self._assigned(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetch_buffer.resume(self._assigned(partitions))

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return self._fetch_buffer.paused

    # Where to read

    def check_positions(self) -> None:
        """Does at once what a fetch would do later where a position is not, or no longer, there:
        whoever stops at an end that lies before the position would never fetch.
        """
        firsts = list_offsets(self._cluster, dict.fromkeys(self.positions, EARLIEST))
        ends = list_offsets(self._cluster, dict.fromkeys(self.positions, LATEST))
        for partition, position in self.positions.items():
            if not firsts[partition].offset <= position <= ends[partition].offset:
                self._fetch_buffer.reset_position(partition)

    def seek(self, partition: TopicPartition, start: Start) -> None:
        self._assigned([partition])
        self._fetch_buffer.set_positions(self._fetch_buffer.resolve({partition: start}))
        if self._session is not None:
            self._session.position_set(partition)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` will hand out."""
        self._assigned([partition])
        if self._session is not None:
            self._session.ensure_positions()
        return self._fetch_buffer.positions[partition]

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """For each partition the offset after the last record that `poll` handed out."""
        return dict(self._fetch_buffer.positions)

    def end(self, partition: TopicPartition) -> int | None:
        """Where it ended for us (the watermark, or the last stable offset) when last heard of."""
        self._assigned([partition])
        return self._fetch_buffer.ends.get(partition)

    # Reading

    def poll(
        self, timeout_ms: float = DEFAULT_POLL_MS, *, max_records: int = 1_000
    ) -> list[ConsumedRecord]:
        """Records, as soon as there are some, in order within a partition; none where the time is
        up before. KafkaError or ClientError where they cannot be had; nothing is skipped by it.
        """
        records: list[ConsumedRecord] = []

        def take() -> bool:
            records.extend(self._fetch_buffer.take(max_records))
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
        """As `poll`, but what is at hand of all partitions in one Arrow batch, in the columns asked
        for (`arrow.ALL_FIELDS`); without rows where the time is up before.

        It ends with the record batch that brings it to `max_bytes`.
        """
        from sawlog.client.arrow.record_columns import ALL_FIELDS, RecordColumns

        taken = RecordColumns(ALL_FIELDS.names if columns is None else columns, max_bytes=max_bytes)

        def take() -> bool:
            self._fetch_buffer.take_columns(taken)
            return bool(taken.rows)

        self._poll(timeout_ms, take)
        return taken.finish()

    def wakeup(self) -> None:
        """Has a poll that waits, or else the next one, return at once. From any thread."""
        self._is_woken = True
        self._wakeup.signal()

    def message_streams(self, topic: str, count: int) -> list[MessageStream]:
        """The topic's messages as `count` iterators that never end, and block where there is
        nothing: each may be read by a thread of its own. A partition's messages all come by one of
        them, in order. They end when the consumer is closed.

        With a group they share the topic with its other members, and what is committed by itself is
        what their readers have come back from; without one they begin at the earliest.
        """
        if self._streams is not None:
            raise ValueError("the consumer is read by message streams already; make another one")
        source = RecordSource(
            self._poll_for_streams, self.pause, self.resume, lambda: self.assignment
        )
        self._streams = MessageStreams(source, count)
        if self._session is None:
            self.assign_topic(topic, RESET_STARTS.get(self._out_of_range, AT_EARLIEST))
        else:
            self._session.progress = self._streams.progress
            self.subscribe([topic], listener=self._streams.listener)
        return self._streams.streams

    def _poll_for_streams(self, timeout_ms: float) -> list[ConsumedRecord]:
        with self._poll_lock:
            return [] if self._is_closed else self.poll(timeout_ms)

    def _poll(self, timeout_ms: float, take: Callable[[], bool]) -> None:
        """Until `take` has found something, or the time is up, or somebody wakes us."""
        self._fork_guard.check("consumer")
        deadline = Deadline(timeout_ms)
        longest_ms = float("inf") if self._session is None else self._session.longest_wait_ms
        with self._poll_lock:
            while not self._is_closed:
                self._wakeup.clear()
                if self._session is not None:
                    self._session.poll_group(deadline)
                if self._fetch_buffer.poll_once(take) or deadline.has_passed:
                    return
                if self._is_woken:
                    self._is_woken = False
                    return
                if not self._is_closed:  # a listener may do that
                    wait_ms = min(deadline.remaining_ms, longest_ms)
                    self._fetch_buffer.wait(wait_ms, self._wakeup.fileno())
        raise ValueError(_CLOSED)

    # Commits

    def commit(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Commits, and waits for it: these offsets, each of the next record to be read, or the
        positions. CommitFailed where the partitions are not, or no longer, this member's.
        """
        with self._poll_lock:
            deadline = Deadline(self._cluster.timeout_ms if timeout_ms is None else timeout_ms)
            self._with_group().commit(offsets, deadline)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        done: "CommitCallback" = lambda _, __: None,
    ) -> None:
        """As `commit`, but returns at once; `done` is called by a later poll, commit or close with
        the offsets and what went wrong, or None.
        """
        with self._poll_lock:
            self._with_group().commit_async(offsets, done)

    def committed(self, partitions: Iterable[TopicPartition]) -> "dict[TopicPartition, Committed]":
        """What the group has committed of these; those without are left out."""
        return self._with_group().committed(partitions)

    def _with_group(self) -> "GroupSession":
        if self._session is None:
            raise ValueError("the consumer has no group; give it one: Consumer(..., group=NAME)")
        self._fork_guard.check("consumer")
        if self._session.is_closed:
            raise ValueError(_CLOSED)
        return self._session

    def _begin(self, committed: "Mapping[TopicPartition, Committed | None]") -> None:
        """Partitions that the group gave: each where it was left, or where the policy says."""
        starts: dict[TopicPartition, Start] = {}
        for partition, found in committed.items():
            policy = RESET_STARTS.get(self._out_of_range)
            start = policy if found is None else AtOffset(found.offset)
            if start is None:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"the group has committed no offset of {partition}, and out_of_range says to"
                    " fail; commit one first, seek, or say earliest or latest",
                )
            starts[partition] = start
        self._fetch_buffer.set_positions(self._fetch_buffer.resolve(starts))

    def _assigned(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        wanted = list(partitions)
        for partition in wanted:
            if partition not in self.assignment:
                raise ValueError(f"{partition} is not assigned; only {sorted(self.assignment)} are")
        return wanted
