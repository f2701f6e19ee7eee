"""What all groups have in common, whichever protocol their members speak."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.protocol.messages.describe_groups_response import DescribedGroup

PartitionCheck = Callable[[bytes, int], None]
"""(topic id, partition) of a commit; raises KafkaError where the commit must be refused."""


class GroupType(StrEnum):
    """As tools print them; on the wire they are in lower case."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"


class Group(ABC):
    """A group as the offsets and the admin requests see it. Checks raise KafkaError."""

    type: GroupType
    id: str

    @property
    @abstractmethod
    def state_name(self) -> str:
        """As ListGroups and the describe requests spell it."""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """What the members use the group for: `consumer`, most of the time."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """No member is left; offsets may be."""

    @abstractmethod
    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, api_version: int
    ) -> PartitionCheck | None:
        """May this member commit offsets in this generation (classic) or member epoch now?

        A check that comes back is made for each partition: a consumer group takes commits in an
        older epoch for partitions that the member has had since then (KIP-1251).
        """

    @abstractmethod
    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """May this member read the group's offsets? (OffsetFetch v9+; None and -1: an admin.)"""

    @abstractmethod
    def check_offset_delete(self) -> None: ...

    @abstractmethod
    def check_delete(self) -> None: ...

    def describe(self) -> "DescribedGroup | None":
        """As DescribeGroups tells it; None where the group is no classic one."""
        return None

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """As far as one can know; a topic that somebody reads keeps its offsets."""

    @abstractmethod
    def tombstones(self) -> "list[Entry]":
        """The records that end the group; its offsets have their own."""

    @abstractmethod
    def offsets_unused_since(self, commit_ms: int) -> int | None:
        """From when on the retention of an offset counts, committed at `commit_ms` for a topic that
        nobody of the group is subscribed to; None: no offset of the group expires now."""
