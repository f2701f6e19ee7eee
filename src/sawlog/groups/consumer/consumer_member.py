"""A member of a consumer group: its subscription and its current assignment.

A member is immutable, so that `is` and `==` tell whether it changed.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from sawlog.core.ids import TopicId
from sawlog.protocol.messages.consumer_group_member_metadata_value import ClassicMemberMetadata

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
"""A static member leaves temporarily: it keeps its partitions until its session times out."""

Assignment = Mapping[TopicId, frozenset[int]]
"""Partitions by topic; a topic without partitions is left out."""

Holding = Mapping[TopicId, Mapping[int, int]]
"""Partitions that a member owns, each with the epoch in which it was assigned. Read-only."""

NO_PARTITIONS: Holding = {}
NO_TOPICS: frozenset[str] = frozenset()


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched, the version of the topics, and the time."""

    topics: frozenset[str]
    version: int
    at_ms: int


class MemberState(IntEnum):
    """The numbers are those of the current-assignment record; `reconciliation.py` has the table."""

    STABLE = 0
    """The member owns all partitions of its epoch's target."""
    UNREVOKED = 1
    """The member must revoke partitions before it can move to the next epoch."""
    UNRELEASED = 2
    """The member is in the target epoch and waits for partitions that other members still own."""
    UNKNOWN = 127
    """A state written by a newer coordinator."""

    @classmethod
    def of(cls, number: int) -> "MemberState":
        try:
            return cls(number)
        except ValueError:
            return cls.UNKNOWN


STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED
UNRELEASED = MemberState.UNRELEASED
UNKNOWN = MemberState.UNKNOWN


class ConsumerMember(NamedTuple):
    """`revoking` has the partitions that the member was told to revoke and has not yet confirmed.
    The member owns `assigned` and `revoking`; no other member may get them."""

    id: str
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = NO_TOPICS
    regex: str | None = ""
    assignor: str | None = None
    assigned: Holding = NO_PARTITIONS
    revoking: Holding = NO_PARTITIONS
    classic: ClassicMemberMetadata | None = None

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol, during a migration."""
        return self.classic is not None

    def is_at(self, epoch: int) -> bool:
        """Whether the member has reached this epoch and waits for nothing."""
        return self.state is STABLE and self.epoch == epoch

    def owns_only_assigned(self, owned: "Iterable[tuple[TopicId, Iterable[int]]]") -> bool:
        """Whether all reported partitions are assigned to the member."""
        for topic_id, partitions in owned:
            assigned = self.assigned.get(topic_id)
            if assigned is None or not all(index in assigned for index in partitions):
                return False
        return True

    def epoch_of(self, topic_id: TopicId, partition: int) -> int | None:
        """The epoch in which a partition was assigned; None if the member does not own it."""
        for holding in (self.assigned, self.revoking):
            epochs = holding.get(topic_id)
            if epochs is not None and partition in epochs:
                return epochs[partition]
        return None
