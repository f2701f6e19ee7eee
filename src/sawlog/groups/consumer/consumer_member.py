"""One member of a consumer group: what it asked for, and what it may read.

A member is a value: whoever changes it makes a new one, so that `is` and `==` tell what changed.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from sawlog.core.ids import TopicId
from sawlog.protocol.messages.consumer_group_member_metadata_value import ClassicMemberMetadata

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
"""A static member that will come back: its partitions wait for it until its session ends."""

Assignment = Mapping[TopicId, frozenset[int]]
"""Partitions of topics; a topic without any is not there."""

Holding = Mapping[TopicId, Mapping[int, int]]
"""Partitions that a member holds, each with the epoch in which it was given to it. Read only."""

NOTHING: Holding = {}
NO_TOPICS: frozenset[str] = frozenset()


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched, the version of the topics, and the time."""

    topics: frozenset[str]
    version: int
    at_ms: int


class MemberState(IntEnum):
    """The numbers are those of the current-assignment record; `reconciliation.py` has the table."""

    STABLE = 0
    """It holds all that its epoch gives it."""
    UNREVOKED = 1
    """It must give partitions up before it goes on to the next epoch."""
    UNRELEASED = 2
    """It is in the newest epoch and waits for partitions that others still hold."""
    UNKNOWN = 127
    """Written by a coordinator from the future."""

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


class Member(NamedTuple):
    """`assigned` is what it is told to read; `revoking` is what it was told to give up and has not
    yet said that it did. It holds both, and nobody else may have them."""

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
    assigned: Holding = NOTHING
    revoking: Holding = NOTHING
    classic: ClassicMemberMetadata | None = None

    @property
    def is_classic(self) -> bool:
        """It speaks the classic protocol in a group of the consumer protocol (a migration)."""
        return self.classic is not None

    def is_at(self, epoch: int) -> bool:
        """It has arrived in this epoch and waits for nothing."""
        return self.state is STABLE and self.epoch == epoch

    def holds_only(self, owned: "Iterable[tuple[TopicId, Iterable[int]]]") -> bool:
        """Nothing is in `owned` that is not assigned to it."""
        for topic_id, partitions in owned:
            assigned = self.assigned.get(topic_id)
            if assigned is None or not all(index in assigned for index in partitions):
                return False
        return True

    def epoch_of(self, topic_id: TopicId, partition: int) -> int | None:
        """The epoch in which it was given a partition that it still holds."""
        for holding in (self.assigned, self.revoking):
            epochs = holding.get(topic_id)
            if epochs is not None and partition in epochs:
                return epochs[partition]
        return None
