"""Committed offsets: by group, topic and partition, exactly as the records of the log tell them."""

from typing import TYPE_CHECKING, NamedTuple

from sawlog.coordinator.records import Entry
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
from sawlog.protocol.messages.offset_commit_value import OffsetCommitValue
from sawlog.protocol.schema import NO_UUID

if TYPE_CHECKING:
    from sawlog.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
    from sawlog.protocol.messages.legacy_offset_commit_value import LegacyOffsetCommitValue

NO_TIME = -1


class Committed(NamedTuple):
    """What a group said of one partition: the next offset that it wants to read."""

    offset: int
    leader_epoch: int  # -1: not told
    metadata: str
    commit_ms: int
    expire_ms: int = NO_TIME  # as an old client wished; else the broker's retention counts
    topic_id: bytes = NO_UUID  # none: committed before topics had ids


Partitions = dict[int, Committed]


class Offsets:
    """Invariant: no mapping inside `by_group` is empty."""

    __slots__ = ("by_group",)

    def __init__(self) -> None:
        self.by_group: dict[str, dict[str, Partitions]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        return self.partitions(group_id, topic).get(partition)

    def partitions(self, group_id: str, topic: str) -> Partitions:
        """Of one topic, to be looked at only."""
        topics = self.by_group.get(group_id)
        return (topics.get(topic) if topics else None) or {}

    def put(self, group_id: str, topic: str, partition: int, committed: Committed) -> None:
        self.made(group_id, topic)[partition] = committed

    def made(self, group_id: str, topic: str) -> Partitions:
        """Of one topic, to be put into at once."""
        topics = self.by_group.get(group_id)
        if topics is None:
            topics = self.by_group[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        return partitions

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self.by_group.get(group_id, {})
        partitions = topics.get(topic)
        if partitions is None:
            return
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
            if not topics:
                del self.by_group[group_id]

    def replay(
        self,
        key: "OffsetCommitKey | LegacyOffsetCommitKey",
        value: "OffsetCommitValue | LegacyOffsetCommitValue | None",
    ) -> None:
        if value is None:
            self.remove(key.group, key.topic, key.partition)
        else:
            self.put(key.group, key.topic, key.partition, from_record(value))

    def tombstones(self, group_id: str) -> list[Entry]:
        """The records that end all offsets of a group."""
        return [
            tombstone(group_id, topic, partition)
            for topic, partitions in self.by_group.get(group_id, {}).items()
            for partition in partitions
        ]


def from_record(value: "OffsetCommitValue | LegacyOffsetCommitValue") -> Committed:
    if isinstance(value, OffsetCommitValue):
        return Committed(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
    return Committed(value.offset, -1, value.metadata, value.commit_timestamp)


def tombstone(group_id: str, topic: str, partition: int) -> Entry:
    return Entry(OffsetCommitKey(group_id, topic, partition), None)
