"""The interface of all groups, whatever their protocol."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.protocol.messages.describe_groups_response import DescribedGroup

PartitionCheck = Callable[[bytes, int], None]
"""Checks (topic id, partition) of a commit; raises KafkaError if the commit must be refused."""


class GroupType(StrEnum):
    """The names that tools print; on the wire they are in lower case."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"


class Group(ABC):
    """A group as the offset and admin requests see it. The checks raise KafkaError."""

    type: GroupType
    id: str

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state as in ListGroups and the describe requests."""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """The kind of the members: `consumer` for groups of consumers."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members; it may have offsets."""

    @abstractmethod
    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        api_version: int,
        *,
        is_transactional: bool = False,
    ) -> PartitionCheck | None:
        """Check that this member may commit in this generation (classic) or member epoch.

        A producer need not name a member for a transactional commit (TxnOffsetCommit before
        version 3 cannot); if it does, the member is checked.

        The returned check, if any, applies to each partition: a consumer group accepts commits with
        an older epoch for partitions that the member has owned since then (KIP-1251).
        """

    @abstractmethod
    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check that this member may fetch offsets (OffsetFetch v9+); None and -1: an admin."""

    @abstractmethod
    def check_offset_delete(self) -> None: ...

    @abstractmethod
    def check_delete(self) -> None: ...

    def describe(self) -> "DescribedGroup | None":
        """Describe the group for DescribeGroups; None if it is not a classic group."""
        return None

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, as far as known; its offsets do not expire."""

    @abstractmethod
    def tombstones(self) -> "list[Entry]":
        """The records that delete the group, without its offsets."""

    @abstractmethod
    def offsets_unused_since(self, commit_ms: int) -> int | None:
        """The start of the retention of an offset that was committed at `commit_ms` for a topic
        without subscribers in the group; None: no offset of the group expires now."""
