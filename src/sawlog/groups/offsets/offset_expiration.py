"""Expires unused offsets, deletes groups that have none left, and deletes the offsets of deleted
topics.

A partition with a pending offset of a transaction keeps its committed one, and the group.

The number of tombstones in one batch is limited; the next batch follows when one is committed, so
that no step takes long.
"""

from typing import TYPE_CHECKING

from sawlog.cluster.metadata_image import changed_topics
from sawlog.coordinator.plan import Plan
from sawlog.core.ids import TopicName
from sawlog.groups.offsets.committed_offset import NO_TIME, CommittedOffset
from sawlog.groups.offsets.offset_table import GroupPartition, tombstone
from sawlog.protocol.schema import NO_UUID

if TYPE_CHECKING:
    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.core.errors import KafkaError
    from sawlog.core.ids import TopicId
    from sawlog.groups.context import GroupContext
    from sawlog.groups.group import Group
    from sawlog.groups.offsets.offset_table import OffsetTable

EXPIRE = "offset expiration"
DELETE = "offsets of deleted topics"
STEP_BYTES = 200_000
"""Bytes of tombstones in one batch: some hundred records."""

STEP_GROUPS = 1_000
OTHER_BYTES = 300
"""Bytes of a tombstone besides the group id."""

MS_PER_MINUTE = 60_000

Deletion = tuple[str, str, int, CommittedOffset]
"""Group, topic, partition, and the committed or pending offset to delete."""


class OffsetExpiration:
    """Invariant: while the machine is active, the timer of the next expiration is set."""

    def __init__(
        self, context: "GroupContext", groups: "dict[str, Group]", offsets: "OffsetTable"
    ) -> None:
        config = context.config
        self._context = context
        self._groups = groups
        self._offsets = offsets
        self._retention_ms: int = config["offsets.retention.minutes"] * MS_PER_MINUTE
        self._interval_ms: int = config["offsets.retention.check.interval.ms"]
        self._to_check: list[str] = []
        self._to_delete: list[Deletion] = []

    def activate(self) -> None:
        self._schedule()

    # Expiry

    def _schedule(self) -> None:
        self._context.timers.set(EXPIRE, self._interval_ms, self._expire_all)

    def _expire_all(self) -> Plan[None]:
        self._to_check = list(reversed(self._groups))
        return self._expire_some()

    def _expire_some(self) -> Plan[None]:
        """Expire the offsets of the next groups, up to one batch of tombstones."""
        self._schedule()
        now_ms = self._context.clock.now_ms()
        entries: list[Entry] = []
        left = STEP_BYTES
        pending_groups = {place.group_id for place in self._offsets.pending.keys}
        for _ in range(STEP_GROUPS):
            if not self._to_check:
                break
            group_id = self._to_check[-1]
            limit = left // _tombstone_bytes(group_id)
            if limit < 1 and entries:
                break
            expired, is_checked = self._expired(
                group_id, now_ms, max(limit, 1), has_pending=group_id in pending_groups
            )
            entries += expired
            left -= len(expired) * _tombstone_bytes(group_id)
            if not is_checked:
                break
            self._to_check.pop()
        return Plan(entries=entries, on_committed=self._continue_expiration)

    def _expired(
        self, group_id: str, now_ms: int, limit: int, *, has_pending: bool
    ) -> "tuple[list[Entry], bool]":
        """Return up to `limit` tombstones of offsets that expire now, and whether these are all."""
        group = self._groups.get(group_id)
        if group is None:
            return [], True
        entries: list[Entry] = []
        pending = self._offsets.pending
        keeps_offsets = has_pending
        for topic, partitions in self._offsets.by_group.get(group_id, {}).items():
            if group.is_subscribed_to(topic):
                keeps_offsets = True
                continue
            for partition, committed in partitions.items():
                if not self._is_expired(group, committed, now_ms) or (
                    has_pending and GroupPartition(group_id, topic, partition) in pending
                ):
                    keeps_offsets = True
                elif len(entries) == limit:
                    return entries, False
                else:
                    entries.append(tombstone(group_id, topic, partition))
        if not keeps_offsets and group.is_empty:
            entries += group.tombstones()
        return entries, True

    def _continue_expiration(self, error: "KafkaError | None") -> None:
        if error is None and self._to_check:
            self._context.timers.set(EXPIRE, 0, self._expire_some)

    def _is_expired(self, group: "Group", committed: CommittedOffset, now_ms: int) -> bool:
        unused_since_ms = group.offsets_unused_since(committed.commit_ms)
        if unused_since_ms is None:
            return False
        if committed.expire_ms != NO_TIME:
            return now_ms >= committed.expire_ms
        return now_ms - unused_since_ms >= self._retention_ms

    # Deleted topics

    def delete_for_topics(self, old: "MetadataImage", new: "MetadataImage") -> Plan[None]:
        """Delete the offsets of deleted topics, but not those of a new topic with the same name."""
        deleted = {
            before.name: before.id
            for before, after in changed_topics(old, new)
            if before is not None and after is None
        }
        deletions: list[Deletion] = []
        if deleted:
            deletions += self._pending_for_topics(deleted)
            for group_id, topics in self._offsets.by_group.items():
                for name in deleted.keys() & topics.keys():
                    deletions += [
                        (group_id, name, partition, committed)
                        for partition, committed in topics[name].items()
                        if committed.topic_id in (NO_UUID, deleted[name])
                    ]
        if not deletions:
            return Plan()
        self._to_delete += deletions
        return self._delete_some()

    def _pending_for_topics(self, deleted: "dict[TopicName, TopicId]") -> list[Deletion]:
        pending = self._offsets.pending
        return [
            (*place, committed)
            for place in pending.keys
            if (topic_id := deleted.get(TopicName(place.topic))) is not None
            for committed in pending.of_key(place).values()
            if committed is not None and committed.topic_id in (NO_UUID, topic_id)
        ]

    def _delete_some(self) -> Plan[None]:
        """Delete the next offsets, except those that were committed again since."""
        offsets = self._offsets
        entries: list[Entry] = []
        left = STEP_BYTES
        while self._to_delete and left > 0:
            group_id, topic, partition, committed = self._to_delete.pop()
            found = [offsets.get(group_id, topic, partition)]
            if offsets.pending:
                place = GroupPartition(group_id, topic, partition)
                found += offsets.pending.of_key(place).values()
            if any(one is committed for one in found):
                entries.append(tombstone(group_id, topic, partition))
                left -= _tombstone_bytes(group_id)
        return Plan(entries=entries, on_committed=self._continue_deletion)

    def _continue_deletion(self, error: "KafkaError | None") -> None:
        if error is None and self._to_delete:
            self._context.timers.set(DELETE, 0, self._delete_some)


def _tombstone_bytes(group_id: str) -> int:
    """An upper bound: a character takes up to four bytes, and topic names are short."""
    return 4 * len(group_id) + OTHER_BYTES
