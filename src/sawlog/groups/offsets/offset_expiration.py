"""What goes by itself: offsets that nobody has used for long, groups that have nothing left, and
the offsets of topics that are deleted.

Much may go at once, and one batch holds only so many tombstones; the rest follows when those are
committed, so that no step is long.
"""

from typing import TYPE_CHECKING

from sawlog.cluster.metadata_image import changed_topics
from sawlog.coordinator.plan import Plan
from sawlog.groups.offsets.committed_offset import NO_TIME, Committed
from sawlog.groups.offsets.offset_table import tombstone
from sawlog.protocol.schema import NO_UUID

if TYPE_CHECKING:
    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.core.errors import KafkaError
    from sawlog.groups.context import GroupContext
    from sawlog.groups.group import Group
    from sawlog.groups.offsets.offset_table import Offsets

CHECK = "offsets retention"
FORGET = "offsets of deleted topics"
STEP_BYTES = 200_000
"""Of tombstones in one batch: some hundreds, and never more than the log takes at once."""

STEP_GROUPS = 1_000
OTHER_BYTES = 300
"""Of a tombstone, besides the group id."""

MS_PER_MINUTE = 60_000

Gone = tuple[str, str, int, Committed]
"""Group, topic, partition, and what was committed when it was found to go."""


class Retention:
    """Invariant: while the shard is active, the timer of the next check is set."""

    def __init__(
        self, context: "GroupContext", groups: "dict[str, Group]", offsets: "Offsets"
    ) -> None:
        config = context.config
        self._context = context
        self._groups = groups
        self._offsets = offsets
        self._retention_ms: int = config["offsets.retention.minutes"] * MS_PER_MINUTE
        self._interval_ms: int = config["offsets.retention.check.interval.ms"]
        self._unchecked: list[str] = []
        self._unforgotten: list[Gone] = []

    def activate(self) -> None:
        self._check_later()

    # Expiry

    def _check_later(self) -> None:
        self._context.timers.set(CHECK, self._interval_ms, self._check_all)

    def _check_all(self) -> Plan:
        self._unchecked = list(reversed(self._groups))
        return self._check_some()

    def _check_some(self) -> Plan:
        """The next groups, up to a batch of tombstones."""
        self._check_later()
        now_ms = self._context.clock.now_ms()
        entries: list[Entry] = []
        left = STEP_BYTES
        for _ in range(STEP_GROUPS):
            if not self._unchecked:
                break
            group_id = self._unchecked[-1]
            most = left // _tombstone_bytes(group_id)
            if most < 1 and entries:
                break
            expired, is_checked = self._checked(group_id, now_ms, max(most, 1))
            entries += expired
            left -= len(expired) * _tombstone_bytes(group_id)
            if not is_checked:
                break
            self._unchecked.pop()
        return Plan(entries=entries, on_committed=self._go_on_checking)

    def _checked(self, group_id: str, now_ms: int, most: int) -> "tuple[list[Entry], bool]":
        """Tombstones for what expires now, and whether they are all."""
        group = self._groups.get(group_id)
        if group is None:
            return [], True
        entries: list[Entry] = []
        stays = False
        for topic, partitions in self._offsets.by_group.get(group_id, {}).items():
            if group.is_subscribed_to(topic):
                stays = True
                continue
            for partition, committed in partitions.items():
                if not self._is_expired(group, committed, now_ms):
                    stays = True
                elif len(entries) == most:
                    return entries, False
                else:
                    entries.append(tombstone(group_id, topic, partition))
        if not stays and group.is_empty:
            entries += group.tombstones()
        return entries, True

    def _go_on_checking(self, error: "KafkaError | None") -> None:
        if error is None and self._unchecked:
            self._context.timers.set(CHECK, 0, self._check_some)

    def _is_expired(self, group: "Group", committed: Committed, now_ms: int) -> bool:
        unused_since_ms = group.offsets_unused_since(committed.commit_ms)
        if unused_since_ms is None:
            return False
        if committed.expire_ms != NO_TIME:
            return now_ms >= committed.expire_ms
        return now_ms - unused_since_ms >= self._retention_ms

    # Deleted topics

    def forget_deleted(self, old: "MetadataImage", new: "MetadataImage") -> Plan:
        """Tombstones for the offsets of topics that are gone; not for those of a new topic that has
        the name of an old one."""
        deleted = {
            before.name: before.id
            for before, after in changed_topics(old, new)
            if before is not None and after is None
        }
        gone: list[Gone] = []
        if deleted:
            for group_id, topics in self._offsets.by_group.items():
                for name in deleted.keys() & topics.keys():
                    gone += [
                        (group_id, name, partition, committed)
                        for partition, committed in topics[name].items()
                        if committed.topic_id in (NO_UUID, deleted[name])
                    ]
        if not gone:
            return Plan()
        self._unforgotten += gone
        return self._forget_some()

    def _forget_some(self) -> Plan:
        """The next ones, but for those that have been committed anew since."""
        offsets = self._offsets
        entries: list[Entry] = []
        left = STEP_BYTES
        while self._unforgotten and left > 0:
            group_id, topic, partition, committed = self._unforgotten.pop()
            if offsets.get(group_id, topic, partition) is committed:
                entries.append(tombstone(group_id, topic, partition))
                left -= _tombstone_bytes(group_id)
        return Plan(entries=entries, on_committed=self._go_on_forgetting)

    def _go_on_forgetting(self, error: "KafkaError | None") -> None:
        if error is None and self._unforgotten:
            self._context.timers.set(FORGET, 0, self._forget_some)


def _tombstone_bytes(group_id: str) -> int:
    """As many as one can take: up to four for a letter, and names of topics are short."""
    return 4 * len(group_id) + OTHER_BYTES
