"""The groups of one partition of `__consumer_offsets`: the machine behind the group coordinator.

It holds all groups and their offsets, and gives every record to whom it belongs. What requests do
is in `classic/`, `consumer/`, `offsets/` and `admin.py`: each of them plans, none of them writes.
"""

from typing import TYPE_CHECKING, Any

from sawlog.coordinator.plan import Plan
from sawlog.groups.classic.classic_membership import ClassicMembership
from sawlog.groups.classic.rebalance import Rebalancing
from sawlog.groups.consumer.consumer_membership import ConsumerMembership
from sawlog.groups.group_admin import Admin
from sawlog.groups.migration.classic_members import ClassicMembers
from sawlog.groups.offsets.offset_expiration import Retention
from sawlog.groups.offsets.offset_requests import OffsetRequests
from sawlog.groups.offsets.offset_table import Offsets
from sawlog.protocol.messages.group_metadata_key import GroupMetadataKey
from sawlog.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.core.errors import KafkaError
    from sawlog.groups.context import GroupContext
    from sawlog.groups.group import Group
    from sawlog.protocol.schema import Message


class GroupMachine:
    """Invariant: `groups` and `offsets` are what the records of the log say, besides what is never
    written: who waits for an answer, and who is about to join."""

    def __init__(self, context: "GroupContext") -> None:
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        rebalancing = Rebalancing(context, self.groups)
        self.consumer = ConsumerMembership(context, self.groups, rebalancing)
        classic_members = ClassicMembers(context, self.consumer, self.consumer.switch)
        self.classic = ClassicMembership(context, self.groups, rebalancing, classic_members)
        self.offset_requests = OffsetRequests(context, self.groups, self.offsets, rebalancing)
        self.retention = Retention(context, self.groups, self.offsets)
        self.admin = Admin(self.groups, self.offsets)
        self._replayers: dict[type[Message], Callable[[Any, Any], None]] = {
            LegacyOffsetCommitKey: self.offsets.replay,
            OffsetCommitKey: self.offsets.replay,
            GroupMetadataKey: self.classic.replay,
            **self.consumer.replayers,
        }

    def replay(self, entry: "Entry") -> None:
        self._replayers[type(entry.key)](entry.key, entry.value)

    def replay_encoded(self, key: bytes, value: bytes) -> bool:
        return self.offsets.replay_encoded(key, value)

    def activate(self) -> None:
        self.classic.activate()
        self.consumer.activate()
        self.offset_requests.activate()
        self.retention.activate()

    def deactivate(self, error: "KafkaError") -> None:
        self.classic.deactivate(error)

    def image_changed(self, old: "MetadataImage", new: "MetadataImage") -> Plan:
        """Topics came, grew or went."""
        self.consumer.image_changed(old, new)
        return self.retention.forget_deleted(old, new)
