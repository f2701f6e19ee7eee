"""The polling thread's side of a group: it applies rebalances, finds positions and commits."""

import time
import weakref
from collections.abc import Iterable
from typing import Any

from sawlog.client.admin.group_offsets import NOT_A_MEMBER, Committed, GroupMetadata, Identity
from sawlog.client.consumer.assigned_partitions import AssignedPartitions
from sawlog.client.consumer.membership.group_membership import Begin, Progress
from sawlog.client.consumer.membership.heartbeat_thread import HeartbeatThread
from sawlog.client.consumer.membership.membership_protocol import (
    Change,
    GroupSettings,
    Subscription,
)
from sawlog.client.consumer.membership.offset_commits import (
    FENCED,
    REBALANCED,
    CommitCallback,
    CommitFailed,
    OffsetCommits,
    Offsets,
    checked_offsets,
)
from sawlog.client.consumer.membership.rebalance_listener import RebalanceListener, call_listener
from sawlog.client.errors import ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.coordinator_requests import Coordinators
from sawlog.client.net.retries import Backoff, Deadline, is_retriable_of_assigned
from sawlog.client.net.wakeup import Wakeup
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicPartition

_LAST_COMMIT_MS = 10_000  # timeout of the commit before a revocation, which others wait for
_RENEWAL_MS = 3_600_000  # offsets of a group without members expire after their commit

_logger = EventLogger("sawlog.client.group")


class GroupSession:
    """The group of one consumer; `owned` is the assignment."""

    def __init__(
        self,
        cluster: Cluster,
        group: str | GroupSettings,
        partitions: AssignedPartitions,
        begin: Begin,
        reader_wakeup: Wakeup,
        *,
        auto_commit_ms: float | None,
        require_stable: bool,
    ) -> None:
        self._cluster = cluster
        self._settings = settings = GroupSettings(group) if isinstance(group, str) else group
        self._partitions = partitions
        self._begin = begin
        self._auto_commit_ms = auto_commit_ms
        self._require_stable = require_stable
        self._commits = OffsetCommits(Coordinators(cluster), settings.group)
        self._reader_wakeup = reader_wakeup
        self._progress: Progress = lambda: dict(partitions.positions)
        self._heartbeat_thread: HeartbeatThread | None = None
        self._finalizer: Any = None
        self._listener = RebalanceListener()
        self.is_closed = False
        self.may_deliver = True  # the broker fences the commits of a member that it removed
        self.owned: frozenset[TopicPartition] = frozenset()
        self._without_position: set[TopicPartition] = set()
        self._retry_deadline: Deadline | None = None
        self._last_committed: dict[TopicPartition, int] = {}
        self._next_commit = Deadline(auto_commit_ms or 0.0)
        self._next_renewal = Deadline(_RENEWAL_MS)

    def commit_progress_of(self, progress: Progress) -> None:
        """Commit the offsets that `progress` returns instead of the positions."""
        self._progress = progress

    # Membership

    @property
    def is_subscribed(self) -> bool:
        return self._heartbeat_thread is not None

    @property
    def max_wait_ms(self) -> float:
        """The longest time that a poll may wait without `poll_group`."""
        return min(self._settings.max_poll_interval_ms / 3, self._auto_commit_ms or float("inf"))

    def subscribe(
        self, topics: frozenset[str], pattern: str | None, listener: RebalanceListener
    ) -> None:
        subscription = Subscription(topics, pattern)
        self._listener = listener
        if self._heartbeat_thread is not None:
            self._heartbeat_thread.subscribe(subscription)
            return
        self._heartbeat_thread = HeartbeatThread(
            self._cluster.sibling(), self._settings, subscription, self._reader_wakeup
        )
        self._finalizer = weakref.finalize(self, self._heartbeat_thread.end)

    def unsubscribe(self, *, commits: bool = True) -> None:
        """Leave the group, after a last commit if auto-commit is on."""
        if self._heartbeat_thread is None:
            return
        owned = self.owned
        failures: list[Exception] = []
        if owned and self._heartbeat_thread.identity() is None:
            self._release(owned)
            failures = call_listener(self._listener.lost, owned)
        elif owned:
            if commits:
                self._commit_before_revoke(owned)
            failures = call_listener(self._listener.revoked, owned)
            self._release(owned)
        heartbeat_thread, self._heartbeat_thread = self._heartbeat_thread, None
        self._finalizer.detach()
        heartbeat_thread.close()
        for failure in failures:
            raise failure

    def close(self, *, commits: bool) -> None:
        if commits and self._heartbeat_thread is None:
            self._commit_before_revoke(frozenset(self._partitions.positions))
        try:
            self.unsubscribe(commits=commits)  # its listener may still commit
            self._commits.collect(wait=commits)
        finally:
            self.is_closed = True

    def poll_group(self, deadline: Deadline) -> None:
        """Apply rebalances, commit and find positions; called in every turn of a poll."""
        self._commits.collect()
        if self._heartbeat_thread is not None:
            self._heartbeat_thread.on_poll()
        self._apply_changes()
        if self._auto_commit_ms is not None and self._next_commit.has_passed:
            self._next_commit = Deadline(self._auto_commit_ms)
            self._auto_commit()
        if self._without_position:
            self._fetch_positions(deadline)

    def ensure_positions(self) -> None:
        """Find a position for every owned partition before returning."""
        self._retry_deadline = deadline = self._cluster.deadline()
        backoff = Backoff()
        while self._without_position:
            self._fetch_positions(deadline)
            if self._without_position:
                time.sleep(backoff.next_ms() / 1_000)

    def position_set(self, partition: TopicPartition) -> None:
        """Note that the caller has set the position of a partition."""
        self._without_position.discard(partition)

    # Commits

    def commit(self, offsets: Offsets | None, deadline: Deadline) -> None:
        """Commit and wait; CommitFailed if the partitions are not owned by this member."""
        wanted = self._progress() if offsets is None else checked_offsets(offsets)
        backoff = Backoff()
        while wanted:
            identity = self._identity_for(wanted)
            try:
                self._commits.commit(wanted, identity, deadline)
            except KafkaError as error:
                self._check_retriable(error, identity, deadline)
                time.sleep(backoff.next_ms() / 1_000)
            else:
                self._last_committed.update(wanted)
                return

    def commit_async(self, offsets: Offsets | None, done: CommitCallback) -> None:
        wanted = self._progress() if offsets is None else checked_offsets(offsets)
        if not wanted:
            done(wanted, None)
            return

        def on_response(sent: Offsets, error: Exception | None) -> None:
            if error is None:
                self._last_committed.update(sent)
            elif isinstance(error, KafkaError) and error.code in FENCED:
                error = _commit_failed(error.code, sent)
            done(sent, error)

        try:
            identity = self._identity_for(wanted)
        except CommitFailed as error:
            done(wanted, error)
        else:
            self._commits.send(wanted, identity, on_response)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        wanted = list(partitions)
        found = self._commits.committed(wanted, require_stable=self._require_stable)
        return {each: found[each] for each in wanted if each in found}

    @property
    def group_metadata(self) -> GroupMetadata:
        try:
            return GroupMetadata(self._settings.group, self._identity_for({}))
        except CommitFailed as error:
            raise CommitFailed(
                error.code,
                f"this consumer is not, or no longer, a member of the group"
                f" {self._settings.group!r}, so offsets cannot be committed for it"
                f" ({error.code.name}); abort the transaction, and call poll, which joins the"
                " group. The next owner of its partitions reads their records again",
            ) from None

    def _identity_for(self, offsets: Offsets) -> Identity:
        if self._heartbeat_thread is None:
            return NOT_A_MEMBER
        identity = self._heartbeat_thread.identity()
        if identity is None or not self.owned.issuperset(offsets):
            raise _commit_failed(ErrorCode.UNKNOWN_MEMBER_ID, offsets)
        return identity

    def _check_retriable(self, error: KafkaError, used: Identity, deadline: Deadline) -> None:
        """Raise `error`, unless a retry with the current or next generation may succeed."""
        if error.code not in FENCED or self._heartbeat_thread is None:
            raise error
        now = self._heartbeat_thread.identity()
        may_go_on = now is not None and (now != used or error.code in REBALANCED)
        if not may_go_on or deadline.has_passed:
            raise _commit_failed(error.code, {}) from error
        self._heartbeat_thread.heartbeat_now()

    def _uncommitted(self) -> dict[TopicPartition, int]:
        progress = self._progress()
        return {each: at for each, at in progress.items() if self._last_committed.get(each) != at}

    def _auto_commit(self) -> None:
        """Commit changed offsets; without a subscription renew all now and then (retention)."""
        if self._heartbeat_thread is None and self._next_renewal.has_passed:
            self._next_renewal = Deadline(_RENEWAL_MS)
            self._last_committed.clear()
        self.commit_async(self._uncommitted(), _log_failure)

    def _commit_before_revoke(self, partitions: frozenset[TopicPartition]) -> None:
        if self._auto_commit_ms is None:
            return
        left = {each: at for each, at in self._uncommitted().items() if each in partitions}
        try:
            self.commit(left, Deadline(_LAST_COMMIT_MS))
        except (KafkaError, ClientError) as error:
            _log_failure(left, error)

    # Changes

    def _apply_changes(self) -> None:
        while (thread := self._heartbeat_thread) is not None:  # a listener may unsubscribe
            change = thread.take_change()
            if change is None:
                return
            self._apply_change(thread, change)

    def _apply_change(self, heartbeat_thread: HeartbeatThread, change: Change) -> None:
        failures: list[Exception] = []
        if change.lost:
            self._release(change.lost)
            failures += call_listener(self._listener.lost, change.lost)
        if change.revoked:
            self._commit_before_revoke(change.revoked)
            failures += call_listener(self._listener.revoked, change.revoked)
            self._release(change.revoked)
        if change.assigned:
            self.owned |= change.assigned
            self._without_position |= change.assigned
            failures += call_listener(self._listener.assigned, change.assigned)
        heartbeat_thread.change_applied(change)
        for failure in failures:
            raise failure

    def _release(self, partitions: frozenset[TopicPartition]) -> None:
        self._partitions.remove(partitions)
        self.owned -= partitions
        self._without_position -= partitions
        for partition in partitions:
            self._last_committed.pop(partition, None)

    def _fetch_positions(self, deadline: Deadline) -> None:
        """Start partitions without a position at their committed offsets.

        Retriable errors are left to the next turn until the cluster's timeout is over.
        """
        try:
            wanted = sorted(self._without_position)
            found = self._commits.committed(
                wanted, require_stable=self._require_stable, deadline=deadline
            )
            committed = {each: found.get(each) for each in wanted}
            self._begin(committed)
        except (KafkaError, ClientError) as error:
            self._retry_deadline = self._retry_deadline or self._cluster.deadline()
            if not is_retriable_of_assigned(error) or self._retry_deadline.has_passed:
                self._retry_deadline = None
                raise
            return
        self._retry_deadline = None
        self._last_committed.update(
            {each: at.offset for each, at in committed.items() if at is not None}
        )
        self._without_position.clear()


def _commit_failed(code: ErrorCode, offsets: Offsets) -> CommitFailed:
    which = f" of {', '.join(str(each) for each in sorted(offsets)[:5])}" if offsets else ""
    return CommitFailed(
        code,
        f"the offsets{which} were not committed: the partitions are not, or no longer, assigned to"
        f" this member ({code.name}). Their next owner reads the records again; commit more often,"
        " and poll within max_poll_interval_ms",
    )


def _log_failure(offsets: Offsets, error: Exception | None) -> None:
    if error is not None:
        _logger.warning("offsets were not committed", partitions=len(offsets), reason=str(error))
