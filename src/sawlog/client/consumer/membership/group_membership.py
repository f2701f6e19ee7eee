"""The interface between a consumer and its group, whatever the group is coordinated by."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from sawlog.client.admin.group_offsets import Committed, GroupMetadata
from sawlog.client.consumer.membership.rebalance_listener import RebalanceListener
from sawlog.client.net.retries import Deadline
from sawlog.core.ids import TopicPartition

if TYPE_CHECKING:
    from sawlog.client.consumer.membership.offset_commits import CommitCallback, Offsets

Begin = Callable[[Mapping[TopicPartition, Committed | None]], None]
"""Starts partitions of the consumer at their committed offsets, if they have one."""

Progress = Callable[[], dict[TopicPartition, int]]
"""Returns the offsets to commit; by default the positions."""


class GroupMembership(Protocol):
    """A member of a group, used by the polling thread; `may_deliver` by message streams too."""

    @property
    def is_subscribed(self) -> bool: ...

    @property
    def is_closed(self) -> bool: ...

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that are assigned now."""
        ...

    @property
    def may_deliver(self) -> bool:
        """Whether records of owned partitions may be given to the application now."""
        ...

    @property
    def max_wait_ms(self) -> float:
        """The longest time that a poll may wait without `poll_group`."""
        ...

    def commit_progress_of(self, progress: Progress) -> None:
        """Commit the offsets that `progress` returns instead of the positions."""
        ...

    def subscribe(
        self, topics: frozenset[str], pattern: str | None, listener: RebalanceListener
    ) -> None: ...

    def unsubscribe(self, *, commits: bool = True) -> None: ...

    def close(self, *, commits: bool) -> None: ...

    def poll_group(self, deadline: Deadline) -> None:
        """Apply rebalances, commit and find positions; called in every turn of a poll."""
        ...

    def ensure_positions(self) -> None:
        """Find a position for every owned partition before returning."""
        ...

    def position_set(self, partition: TopicPartition) -> None:
        """Note that the caller has set the position of a partition."""
        ...

    def commit(self, offsets: "Offsets | None", deadline: Deadline) -> None: ...

    def commit_async(self, offsets: "Offsets | None", done: "CommitCallback") -> None: ...

    @property
    def group_metadata(self) -> GroupMetadata:
        """The group and the member for commits in a transaction."""
        ...

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Committed]: ...
