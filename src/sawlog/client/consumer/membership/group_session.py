"""A reader's side of its group: it alone lets go of partitions and takes them, finds where to
begin, and commits. For the reader's thread.
"""

import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sawlog.client.admin.group_offsets import NOBODY, Committed, Identity
from sawlog.client.consumer.fetch_buffer import FetchBuffer
from sawlog.client.consumer.membership.heartbeat_thread import HeartbeatThread
from sawlog.client.consumer.membership.membership_protocol import (
    Change,
    GroupSettings,
    Subscription,
)
from sawlog.client.consumer.membership.offset_commits import (
    FENCED,
    MOVED_ON,
    CommitCallback,
    CommitFailed,
    Commits,
    Offsets,
)
from sawlog.client.consumer.membership.rebalance_listener import RebalanceListener
from sawlog.client.errors import ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.coordinator_requests import Coordinators
from sawlog.client.net.retries import Backoff, Deadline, is_worth_another_try
from sawlog.client.net.wakeup import Wakeup
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicPartition

_LAST_COMMIT_MS = 10_000  # before partitions go to others, who wait for it
_RENEWAL_MS = 3_600_000  # offsets of a group without members are kept from their commit on
_HIGHEST_OFFSET = (1 << 63) - 1

_logger = EventLogger("sawlog.client.group")


Begin = Callable[[Mapping[TopicPartition, Committed | None]], None]
"""Has the consumer read partitions from their committed offset on, where there is one."""


class Session:
    """`owned` is what the reader has; `progress` says how far it has come, by partition."""

    def __init__(
        self,
        cluster: Cluster,
        group: str | GroupSettings,
        reader: FetchBuffer,
        begin: Begin,
        news: Wakeup,
        *,
        auto_commit_ms: float | None,
        require_stable: bool,
    ) -> None:
        self._cluster = cluster
        self._settings = settings = GroupSettings(group) if isinstance(group, str) else group
        self._reader = reader
        self._begin = begin
        self._auto_commit_ms = auto_commit_ms
        self._require_stable = require_stable
        self._commits = Commits(Coordinators(cluster), settings.group)
        self._news = news
        self.progress: Callable[[], dict[TopicPartition, int]] = lambda: dict(reader.positions)
        self._speaker: HeartbeatThread | None = None
        self._end_speaker: Any = None
        self._listener = RebalanceListener()
        self.is_over = False
        self.owned: frozenset[TopicPartition] = frozenset()
        self._unplaced: set[TopicPartition] = set()
        self._give_up: Deadline | None = None
        self._last: dict[TopicPartition, int] = {}  # what is known to be committed
        self._next_commit = Deadline(auto_commit_ms or 0.0)
        self._next_renewal = Deadline(_RENEWAL_MS)

    # Membership

    @property
    def is_subscribed(self) -> bool:
        return self._speaker is not None

    @property
    def longest_wait_ms(self) -> float:
        """A poll that waits looks after the group so often."""
        return min(self._settings.max_poll_interval_ms / 3, self._auto_commit_ms or float("inf"))

    def subscribe(
        self, topics: frozenset[str], pattern: str | None, listener: RebalanceListener
    ) -> None:
        subscription = Subscription(topics, pattern)
        self._listener = listener
        if self._speaker is not None:
            self._speaker.subscribe(subscription)
            return
        self._speaker = HeartbeatThread(
            self._cluster.sibling(), self._settings, subscription, self._news
        )
        self._end_speaker = weakref.finalize(self, self._speaker.end)

    def unsubscribe(self, *, commits: bool = True) -> None:
        """Leaves the group; what was read is committed first, where that is done by itself."""
        if self._speaker is None:
            return
        owned = self.owned
        failures: list[Exception] = []
        if owned and self._speaker.identity() is None:
            self._release(owned)
            failures = self._tell(self._listener.lost, owned)
        elif owned:
            if commits:
                self._commit_before_release(owned)
            failures = self._tell(self._listener.revoked, owned)
            self._release(owned)
        speaker, self._speaker = self._speaker, None
        self._end_speaker.detach()
        speaker.close()
        for failure in failures:
            raise failure

    def close(self, *, commits: bool) -> None:
        if commits and self._speaker is None:
            self._commit_before_release(frozenset(self._reader.positions))
        try:
            self.unsubscribe(commits=commits)  # whose listener may still commit
            self._commits.collect(wait=commits)
        finally:
            self.is_over = True

    def attend(self, deadline: Deadline) -> None:
        """Once in every turn of a poll: what the group has decided is carried out."""
        self._commits.collect()
        if self._speaker is not None:
            self._speaker.polled()
        while self._speaker is not None and (change := self._speaker.take_change()) is not None:
            self._carry_out(self._speaker, change)
        if self._auto_commit_ms is not None and self._next_commit.has_passed:
            self._next_commit = Deadline(self._auto_commit_ms)
            self._commit_by_itself()
        if self._unplaced:
            self._place(deadline)

    def place_all(self) -> None:
        """Has a position for everything that is owned, before it returns."""
        self._give_up = deadline = self._cluster.deadline()
        backoff = Backoff()
        while self._unplaced:
            self._place(deadline)
            if self._unplaced:
                time.sleep(backoff.next_ms() / 1_000)

    def placed(self, partition: TopicPartition) -> None:
        """The reader knows by itself where to begin."""
        self._unplaced.discard(partition)

    # Commits

    def commit(self, offsets: Offsets | None, deadline: Deadline) -> None:
        """CommitFailed where the partitions are not, or no longer, this member's."""
        wanted = self.progress() if offsets is None else _checked(offsets)
        backoff = Backoff()
        while wanted:
            identity = self._identity_for(wanted)
            try:
                self._commits.commit(wanted, identity, deadline)
            except KafkaError as error:
                self._consider(error, identity, deadline)
                time.sleep(backoff.next_ms() / 1_000)
            else:
                self._last.update(wanted)
                return

    def commit_async(self, offsets: Offsets | None, done: CommitCallback) -> None:
        wanted = self.progress() if offsets is None else _checked(offsets)
        if not wanted:
            done(wanted, None)
            return

        def heard(told: Offsets, error: Exception | None) -> None:
            if error is None:
                self._last.update(told)
            elif isinstance(error, KafkaError) and error.code in FENCED:
                error = _failed(error.code, told)
            done(told, error)

        try:
            identity = self._identity_for(wanted)
        except CommitFailed as error:
            done(wanted, error)
        else:
            self._commits.send(wanted, identity, heard)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        found = self._commits.committed(require_stable=self._require_stable)
        return {each: found[each] for each in partitions if each in found}

    def _identity_for(self, offsets: Offsets) -> Identity:
        if self._speaker is None:
            return NOBODY
        identity = self._speaker.identity()
        if identity is None or not self.owned.issuperset(offsets):
            raise _failed(ErrorCode.UNKNOWN_MEMBER_ID, offsets)
        return identity

    def _consider(self, error: KafkaError, used: Identity, deadline: Deadline) -> None:
        """Raises, unless the commit may be taken from who this member is now, or soon will be."""
        if error.code not in FENCED or self._speaker is None:
            raise error
        now = self._speaker.identity()
        may_go_on = now is not None and (now != used or error.code in MOVED_ON)
        if not may_go_on or deadline.has_passed:
            raise _failed(error.code, {}) from error
        self._speaker.hurry()

    def _uncommitted(self) -> dict[TopicPartition, int]:
        progress = self.progress()
        return {each: at for each, at in progress.items() if self._last.get(each) != at}

    def _commit_by_itself(self) -> None:
        """What has changed; without members everything now and then, lest it be forgotten."""
        if self._speaker is None and self._next_renewal.has_passed:
            self._next_renewal = Deadline(_RENEWAL_MS)
            self._last.clear()
        self.commit_async(self._uncommitted(), _log_failure)

    def _commit_before_release(self, partitions: frozenset[TopicPartition]) -> None:
        if self._auto_commit_ms is None:
            return
        left = {each: at for each, at in self._uncommitted().items() if each in partitions}
        try:
            self.commit(left, Deadline(_LAST_COMMIT_MS))
        except (KafkaError, ClientError) as error:
            _log_failure(left, error)

    # Changes

    def _carry_out(self, speaker: HeartbeatThread, change: Change) -> None:
        failures: list[Exception] = []
        if change.lost:
            self._release(change.lost)
            failures += self._tell(self._listener.lost, change.lost)
        if change.revoked:
            self._commit_before_release(change.revoked)
            failures += self._tell(self._listener.revoked, change.revoked)
            self._release(change.revoked)
        if change.assigned:
            self.owned |= change.assigned
            self._unplaced |= change.assigned
            failures += self._tell(self._listener.assigned, change.assigned)
        speaker.carried_out(change)
        for failure in failures:
            raise failure

    def _tell(
        self, hear: Callable[[Sequence[TopicPartition]], None], partitions: Iterable[TopicPartition]
    ) -> list[Exception]:
        try:
            hear(sorted(partitions))
        except Exception as failure:  # the reader's own: it comes out of poll when all is done
            return [failure]
        return []

    def _release(self, partitions: frozenset[TopicPartition]) -> None:
        self._reader.end(partitions)
        self.owned -= partitions
        self._unplaced -= partitions
        for partition in partitions:
            self._last.pop(partition, None)

    def _place(self, deadline: Deadline) -> None:
        """Finds where to begin; what may heal is left to the next turn, for as long as the
        cluster's time-out says.
        """
        try:
            found = self._commits.committed(require_stable=self._require_stable, deadline=deadline)
            placed = {each: found.get(each) for each in sorted(self._unplaced)}
            self._begin(placed)
        except (KafkaError, ClientError) as error:
            self._give_up = self._give_up or self._cluster.deadline()
            if not _may_heal(error) or self._give_up.has_passed:
                self._give_up = None
                raise
            return
        self._give_up = None
        self._last.update({each: at.offset for each, at in placed.items() if at is not None})
        self._unplaced.clear()


def _may_heal(error: KafkaError | ClientError) -> bool:
    """What the group gives is there, and a broker may hear of it a little later."""
    is_unknown = (
        isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    return is_unknown or is_worth_another_try(error)


def _checked(offsets: Offsets) -> dict[TopicPartition, int]:
    for partition, offset in offsets.items():
        if not 0 <= offset <= _HIGHEST_OFFSET:
            raise ValueError(f"{partition}: an offset is from 0 to {_HIGHEST_OFFSET}, not {offset}")
    return dict(offsets)


def _failed(code: ErrorCode, offsets: Offsets) -> CommitFailed:
    which = f" of {', '.join(str(each) for each in sorted(offsets)[:5])}" if offsets else ""
    return CommitFailed(
        code,
        f"the offsets{which} were not committed: this member is not, or no longer, the one that"
        f" reads them ({code.name}). They are read again by who does; commit more often, and poll"
        " within max_poll_interval_ms",
    )


def _log_failure(offsets: Offsets, error: Exception | None) -> None:
    if error is not None:
        _logger.warning("offsets were not committed", partitions=len(offsets), reason=str(error))
