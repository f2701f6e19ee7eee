"""The committed and pending offsets by group, topic and partition, as the log's records describe
them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from sawlog.coordinator.coordinator_records import Entry
from sawlog.coordinator.pending_values import PendingValues
from sawlog.groups.offsets.commit_codec import decode_committed, decode_key_head
from sawlog.groups.offsets.committed_offset import CommittedOffset
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
from sawlog.protocol.messages.offset_commit_value import OffsetCommitValue

if TYPE_CHECKING:
    from sawlog.core.ids import ProducerId
    from sawlog.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
    from sawlog.protocol.messages.legacy_offset_commit_value import LegacyOffsetCommitValue

Partitions = dict[int, CommittedOffset]

NewOffset = tuple[str, int, CommittedOffset]
"""Topic, partition and offset of a commit."""


class GroupPartition(NamedTuple):
    group_id: str
    topic: str
    partition: int


class OffsetTable:
    """Invariants: no mapping inside `by_group` is empty; `_by_key_head` has only mappings that are
    in it, and is empty except during a load. A change of a committed offset always updates
    `pending`, which other objects only read."""

    __slots__ = ("_by_key_head", "by_group", "pending")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[str, Partitions]] = {}
        self.pending: PendingValues[GroupPartition, CommittedOffset] = PendingValues()
        self._by_key_head: dict[bytes, Partitions] = {}  # by record key without the partition

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self.partitions(group_id, topic).get(partition)

    def partitions(self, group_id: str, topic: str) -> Partitions:
        """The offsets of one topic, read-only."""
        topics = self.by_group.get(group_id)
        return (topics.get(topic) if topics else None) or {}

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        if self.pending:
            self.pending.supersede(GroupPartition(group_id, topic, partition))
        self._ensure(group_id, topic)[partition] = committed

    def put_all(self, group_id: str, offsets: Iterable[NewOffset]) -> None:
        if self.pending:
            for topic, partition, committed in offsets:
                self.put(group_id, topic, partition, committed)
            return
        for topic, partition, committed in offsets:
            self._ensure(group_id, topic)[partition] = committed

    def put_pending(
        self, producer_id: "ProducerId", group_id: str, offsets: Iterable[NewOffset]
    ) -> None:
        """Keep the offsets of an open transaction until `end_transaction`."""
        for topic, partition, committed in offsets:
            self.pending.put(producer_id, GroupPartition(group_id, topic, partition), committed)

    def end_transaction(self, producer_id: "ProducerId", *, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer; it may have none."""
        if not is_commit:
            self.pending.abort(producer_id)
            return
        for place, committed in self.pending.commit(producer_id):
            self._ensure(place.group_id, place.topic)[place.partition] = committed

    def _ensure(self, group_id: str, topic: str) -> Partitions:
        """The offsets of one topic; the caller must add to them at once."""
        topics = self.by_group.get(group_id)
        if topics is None:
            topics = self.by_group[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        return partitions

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Remove the committed and the pending offsets of a partition."""
        if self.pending:
            self.pending.remove(GroupPartition(group_id, topic, partition))
        topics = self.by_group.get(group_id, {})
        partitions = topics.get(topic)
        if partitions is None:
            return
        partitions.pop(partition, None)
        if not partitions:
            self._by_key_head.clear()
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

    def replay_pending(
        self,
        producer_id: "ProducerId",
        key: "OffsetCommitKey | LegacyOffsetCommitKey",
        value: "OffsetCommitValue | LegacyOffsetCommitValue | None",
    ) -> None:
        """Replay a record of an open transaction. A tombstone takes effect at once, as in Kafka;
        coordinators write none in transactions."""
        if value is None:
            self.remove(key.group, key.topic, key.partition)
        else:
            offset = (key.topic, key.partition, from_record(value))
            self.put_pending(producer_id, key.group, (offset,))

    def replay_encoded(self, key: bytes, value: bytes) -> bool:
        """Replay an encoded record; False if it is not of the usual form, or if there are pending
        offsets that it might supersede."""
        if self.pending:
            return False
        head = key[:-4]
        partitions = self._by_key_head.get(head)
        committed = decode_committed(value)
        if committed is None:
            return False
        if partitions is None:
            names = decode_key_head(head)
            if names is None:
                return False
            partitions = self._by_key_head[head] = self._ensure(*names)
        partitions[int.from_bytes(key[-4:], "big", signed=True)] = committed
        return True

    def loaded(self) -> None:
        """Drop the index that only the load needs."""
        self._by_key_head = {}

    def tombstones(self, group_id: str) -> list[Entry]:
        """The records that delete all offsets of a group, pending ones too."""
        committed = [
            tombstone(group_id, topic, partition)
            for topic, partitions in self.by_group.get(group_id, {}).items()
            for partition in partitions
        ]
        pending = [
            tombstone(*place)
            for place in self.pending.keys
            if place.group_id == group_id and self.get(*place) is None
        ]
        return committed + pending


def from_record(value: "OffsetCommitValue | LegacyOffsetCommitValue") -> CommittedOffset:
    if isinstance(value, OffsetCommitValue):
        return CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
    return CommittedOffset(value.offset, -1, value.metadata, value.commit_timestamp)


def tombstone(group_id: str, topic: str, partition: int) -> Entry:
    return Entry(OffsetCommitKey(group_id, topic, partition), None)
