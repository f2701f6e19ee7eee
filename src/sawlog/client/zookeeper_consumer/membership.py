"""A member of a group that is coordinated through ZooKeeper alone: rebalances and commits.

Everything happens in the polling thread, within `poll_group`, `commit` and `close`. kazoo's thread
keeps the session alive and reports changes, which wake the polling thread.
"""

import time
from collections.abc import Iterable, Mapping

from sawlog.client.admin.group_offsets import Committed, GroupMetadata
from sawlog.client.consumer.assigned_partitions import AssignedPartitions
from sawlog.client.consumer.membership.classic_protocol import matching_topics
from sawlog.client.consumer.membership.group_membership import Begin, Progress
from sawlog.client.consumer.membership.offset_commits import (
    CommitCallback,
    CommitFailed,
    Offsets,
    checked_offsets,
)
from sawlog.client.consumer.membership.rebalance_listener import RebalanceListener, call_listener
from sawlog.client.errors import ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.retries import Backoff, Deadline, is_retriable_of_assigned
from sawlog.client.zookeeper_consumer.group_nodes import PatternKind, Registration
from sawlog.client.zookeeper_consumer.group_registry import GroupRegistry, OffsetNode
from sawlog.client.zookeeper_consumer.range_rebalance import assignment, plan_rebalance
from sawlog.client.zookeeper_consumer.session import ZooKeeperAway, ZooKeeperSession
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicPartition

_NEVER_MS = float("inf")
_POSITION_RETRY_MS = 100
_COMMIT_TRIES = 3
_MAX_BACKOFF_MS = 2_000

_logger = EventLogger("sawlog.client.zookeeper_consumer")


class ZooKeeperMembership:
    """One member. Each partition in `owned` has an owner node that this member created in the
    session `_session_id`; records are delivered only while that session certainly lives.

    `_uncertain` are partitions that are not in `owned`, but may have an owner node of this session:
    the connection was lost while it was created or deleted. The next rebalance looks.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        registry: GroupRegistry,
        consumer_id: str,
        cluster: Cluster,
        partitions: AssignedPartitions,
        begin: Begin,
        *,
        auto_commit_ms: float | None,
    ) -> None:
        self._session = session
        self._registry = registry
        self._consumer_id = consumer_id
        self._cluster = cluster
        self._partitions = partitions
        self._begin = begin
        self._auto_commit_ms = auto_commit_ms
        self._progress: Progress = lambda: dict(partitions.positions)
        self._listener = RebalanceListener()
        self.is_closed = False
        self._threads = 1
        self._registration: Registration | None = None
        self._registered: Registration | None = None  # in the session `_session_id`
        self._session_id = 0
        self._owned: dict[TopicPartition, OffsetNode] = {}
        self._uncertain: set[TopicPartition] = set()
        self._without_position: set[TopicPartition] = set()
        # Positions by the reset policy, committed even if no record is read
        self._starts: dict[TopicPartition, int] = {}
        self._is_away = False
        self._position_deadline: Deadline | None = None
        self._retry = Deadline(_NEVER_MS)
        self._backoff = Backoff(max_ms=_MAX_BACKOFF_MS)
        self._next_commit = Deadline(_NEVER_MS if auto_commit_ms is None else auto_commit_ms)

    # Membership

    @property
    def is_subscribed(self) -> bool:
        return self._registration is not None

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return frozenset(self._owned)

    @property
    def may_deliver(self) -> bool:
        """Whether the session lives, and nothing has changed that was not read yet."""
        if self._registration is None:
            return True  # partitions that the caller assigned
        session = self._session
        return (
            session.is_connected
            and not session.has_changed
            and session.session_id == self._session_id
            and session.lease.is_valid
        )

    @property
    def max_wait_ms(self) -> float:
        if not self.is_subscribed or not self._session.is_connected:
            return _NEVER_MS  # a report of the session wakes the poll
        waits = [self._session.max_wait_ms, self._retry.remaining_ms]
        if self._auto_commit_ms is not None:
            waits.append(self._next_commit.remaining_ms)
        if self._without_position:
            waits.append(_POSITION_RETRY_MS)
        return min(waits)

    def commit_progress_of(self, progress: Progress) -> None:
        self._progress = progress

    def set_threads(self, count: int) -> None:
        """Take this number of shares of each topic that is subscribed from now on."""
        self._threads = count

    def subscribe(
        self, topics: frozenset[str], pattern: str | None, listener: RebalanceListener
    ) -> None:
        if topics and pattern:
            raise ValueError("a member in ZooKeeper registers either topics or a pattern, not both")
        if pattern:
            matching_topics(pattern, ())  # KafkaError if it is not a regular expression
            self._registration = Registration({pattern: self._threads}, PatternKind.WHITE_LIST)
        else:
            self._registration = Registration(dict.fromkeys(sorted(topics), self._threads))
        self._listener = listener
        self._session.note_change()

    def unsubscribe(self, *, commits: bool = True) -> None:
        """Leave the group, after a last commit if auto-commit is on."""
        self._registration = None
        failures = self._check_session()
        if self._session_id:
            try:
                failures += self._leave(commits=commits)
            except ZooKeeperAway as error:
                _logger.warning("the group was not left yet", reason=str(error))
                failures += self._forget(self.owned)
        for failure in failures:
            raise failure

    def close(self, *, commits: bool) -> None:
        try:
            self.unsubscribe(commits=commits)
        finally:
            self.is_closed = True
            self._session.close()  # deletes what could not be released

    def poll_group(self, deadline: Deadline) -> None:
        failures = self._check_session()
        for failure in failures:
            raise failure
        self._log_connection()
        if self._session.is_connected and (self.is_subscribed or self._session_id):
            try:
                self._session.renew_lease()
                if self._session.has_changed or self._retry.has_passed:
                    failures = self._rebalance()
                if self._next_commit.has_passed:
                    self._auto_commit()
            except ZooKeeperAway:
                self._session.note_change()  # read everything again when it is back
            for failure in failures:
                raise failure
        if self._without_position and not deadline.has_passed:
            self._find_positions()

    def _log_connection(self) -> None:
        was_away, self._is_away = self._is_away, not self._session.is_connected
        if self._is_away and not was_away:
            _logger.warning(
                "the connection to ZooKeeper is lost: no records are delivered until it is back",
                consumer=self._consumer_id,
            )

    def _check_session(self) -> list[Exception]:
        """After a lost session other members may own the partitions: drop everything."""
        if self._session_id in (0, self._session.session_id):
            return []
        _logger.warning(
            "the ZooKeeper session has ended; its partitions are lost",
            consumer=self._consumer_id,
            partitions=len(self._owned),
        )
        self._session_id = 0
        self._registered = None
        failures = self._forget(self.owned)
        self._uncertain.clear()
        return failures

    def _forget(self, partitions: frozenset[TopicPartition]) -> list[Exception]:
        """Drop partitions that this member does not own any more."""
        self._drop(partitions)
        return call_listener(self._listener.lost, partitions) if partitions else []

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        dropped = frozenset(partitions)
        self._partitions.remove(dropped)
        self._without_position -= dropped
        self._uncertain |= dropped
        for partition in dropped:
            self._owned.pop(partition, None)
            self._starts.pop(partition, None)

    # Rebalances

    def _rebalance(self) -> list[Exception]:
        """Read and watch everything, release what moves to others, and claim what is due.

        Returns the exceptions of the listener.
        """
        self._session.take_change()
        self._retry = Deadline(_NEVER_MS)
        if self._registration is None:
            return self._leave(commits=False)
        if not self._register(self._registration):
            self._retry_later()
            return []
        brokers = self._registry.brokers()
        if brokers:  # else keep the last ones
            self._cluster.replace_bootstrap([str(address) for address in brokers])
        view = self._registry.read_view()
        if self._consumer_id not in view.registrations:
            self._registered = None  # deleted by another client
            self._session.note_change()
            return []
        wanted = assignment(view, self._consumer_id)
        failures = self._forget(self.owned - self._registry.still_owned(self._owned))
        plan = plan_rebalance(self.owned, wanted)
        if plan.release:
            failures += self._revoke(plan.release, commits=True)
        self._release_uncertain(self._uncertain - wanted.keys())
        if plan.claim:
            failures += self._claim(plan.claim)
        return failures

    def _register(self, registration: Registration) -> bool:
        """Register, or change the registration; False if the id belongs to another member."""
        session_id = self._session.session_id
        if registration == self._registered:
            return True
        now_ms = int(time.time() * 1_000)
        if self._registered is not None:
            is_done = self._registry.change_registration(registration, now_ms)
        else:
            is_done = self._registry.register(registration, now_ms)
        if not is_done:
            _logger.warning("the consumer id is registered already", consumer=self._consumer_id)
            self._registered = None
            return False
        self._registered = registration
        self._session_id = session_id
        return True

    def _revoke(self, partitions: frozenset[TopicPartition], *, commits: bool) -> list[Exception]:
        if commits:
            self._commit_before_revoke(partitions)
        failures = call_listener(self._listener.revoked, partitions)
        self._drop(partitions)
        return failures

    def _release_uncertain(self, partitions: Iterable[TopicPartition]) -> None:
        """Delete owner nodes of this session, and only of this."""
        asked = frozenset(partitions)
        if asked:
            self._registry.release(self._registry.still_owned(asked))
            self._uncertain -= asked

    def _claim(self, wanted: Mapping[TopicPartition, str]) -> list[Exception]:
        self._uncertain |= wanted.keys()
        claimed = self._registry.claim(wanted)
        self._uncertain -= wanted.keys()
        self._owned.update(claimed)
        self._without_position |= claimed.keys()
        if len(claimed) < len(wanted):
            self._retry_later()
        else:
            self._backoff = Backoff(max_ms=_MAX_BACKOFF_MS)
        _logger.info(
            "claimed partitions",
            consumer=self._consumer_id,
            claimed=len(claimed),
            wanted=len(wanted),
            owned=len(self._owned),
        )
        return call_listener(self._listener.assigned, claimed) if claimed else []

    def _retry_later(self) -> None:
        """Look again after a pause, at the latest; a watch may tell earlier."""
        self._retry = Deadline(self._backoff.next_ms())

    def _leave(self, *, commits: bool) -> list[Exception]:
        owned = self.owned
        failures = self._revoke(owned, commits=commits) if owned else []
        self._release_uncertain(self._uncertain)
        self._registry.deregister()
        self._registered = None
        self._session_id = 0
        return failures

    # Positions

    def ensure_positions(self) -> None:
        self._position_deadline = self._cluster.deadline()
        while self._without_position:
            self._find_positions()
            if self._without_position:
                time.sleep(_POSITION_RETRY_MS / 1_000)

    def position_set(self, partition: TopicPartition) -> None:
        self._without_position.discard(partition)

    def _find_positions(self) -> None:
        """Start partitions at their committed offsets, or where the policy says.

        Retriable errors are left to the next turn until the cluster's timeout is over.
        """
        found = {each: self._owned[each].offset for each in sorted(self._without_position)}
        try:
            self._begin({each: _committed(offset) for each, offset in found.items()})
        except (KafkaError, ClientError) as error:
            self._position_deadline = self._position_deadline or self._cluster.deadline()
            if not is_retriable_of_assigned(error) or self._position_deadline.has_passed:
                self._position_deadline = None
                raise
            return
        self._position_deadline = None
        self._without_position.clear()
        positions = self._partitions.positions
        self._starts |= {each: positions[each] for each, at in found.items() if at is None}
        if self._auto_commit_ms is not None and self._starts:
            # The next owner must not start at another, later end of the log.
            self._next_commit = Deadline(0.0)

    # Commits

    def commit(self, offsets: Offsets | None, deadline: Deadline) -> None:
        """Commit and wait; CommitFailed if the partitions are not owned by this member."""
        wanted = self._progress() if offsets is None else checked_offsets(offsets)
        backoff = Backoff()
        while wanted:
            has_session = self._session_id == self._session.session_id
            if not has_session or not wanted.keys() <= self._owned.keys():
                raise _commit_failed(wanted)
            try:
                refused = self._write(wanted)
            except ZooKeeperAway:
                if deadline.has_passed:
                    raise
                time.sleep(backoff.next_ms() / 1_000)
                continue
            if refused:
                raise _commit_failed(refused)
            return

    def commit_async(self, offsets: Offsets | None, done: CommitCallback) -> None:
        """As `commit`, with one try; `done` is called before this returns."""
        wanted = self._progress() if offsets is None else checked_offsets(offsets)
        error: Exception | None = None
        try:
            self.commit(wanted, Deadline(0.0))
        except (KafkaError, ClientError) as failure:
            error = failure
        done(wanted, error)

    @property
    def group_metadata(self) -> GroupMetadata:
        raise ValueError(
            "the offsets of a group on ZooKeeper cannot be part of a transaction; use Consumer"
        )

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        found = self._registry.offsets(partitions)
        return {
            each: Committed(node.offset, -1, "")
            for each, node in found.items()
            if node.offset is not None
        }

    def _write(self, offsets: Offsets) -> frozenset[TopicPartition]:
        """Write offsets; return the partitions that this member does not own any more.

        A node that has another version than the last one seen may have been written by a commit
        whose answer was lost, or by a tool: the owner's offset is written over it.
        """
        left = dict(offsets)
        for _ in range(_COMMIT_TRIES):
            versions = {each: self._owned[each].version for each in left}
            for partition, version in self._registry.commit(left, versions).items():
                self._owned[partition] = OffsetNode(left.pop(partition), version)
            if not left:
                return frozenset()
            own = self._registry.still_owned(left)
            self._owned.update(self._registry.offsets(own))
            if len(own) < len(left):
                break
        self._session.note_change()
        return frozenset(left)

    def _uncommitted(self) -> dict[TopicPartition, int]:
        return {
            each: at
            for each, at in (self._starts | self._progress()).items()
            if each in self._owned and self._owned[each].offset != at
        }

    def _auto_commit(self) -> None:
        assert self._auto_commit_ms is not None
        self._next_commit = Deadline(self._auto_commit_ms)
        offsets = self._uncommitted()
        if offsets:
            _log_refused(self._write(offsets))

    def _commit_before_revoke(self, partitions: frozenset[TopicPartition]) -> None:
        if self._auto_commit_ms is not None:
            left = {each: at for each, at in self._uncommitted().items() if each in partitions}
            if left:
                _log_refused(self._write(left))


def _committed(offset: int | None) -> Committed | None:
    return None if offset is None else Committed(offset, -1, "")


def _commit_failed(partitions: Iterable[TopicPartition]) -> CommitFailed:
    names = ", ".join(str(each) for each in sorted(partitions)[:5])
    return CommitFailed(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"the offsets of {names} were not committed: the owner nodes are not, or no longer, those"
        " of this consumer. Their next owner reads the records again; commit more often",
    )


def _log_refused(partitions: frozenset[TopicPartition]) -> None:
    if partitions:
        names = ", ".join(str(each) for each in sorted(partitions)[:5])
        _logger.warning("offsets were not committed: the partitions are lost", partitions=names)
