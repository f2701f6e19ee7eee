"""The machine of the group coordinator: the groups of one partition of `__consumer_offsets`.

It owns all groups and their offsets and routes each record to its replay. The requests are in
`classic/`, `consumer/`, `offsets/` and `group_admin.py`; they plan records and write nothing.
"""

from typing import TYPE_CHECKING, Any

from sawlog.coordinator.plan import Plan
from sawlog.groups.classic.classic_membership import ClassicMembership
from sawlog.groups.classic.rebalance import Rebalancer
from sawlog.groups.consumer.consumer_membership import ConsumerMembership
from sawlog.groups.group_admin import GroupAdmin
from sawlog.groups.migration.classic_members import ClassicMembers
from sawlog.groups.offsets.offset_expiration import OffsetExpiration
from sawlog.groups.offsets.offset_requests import OffsetRequests
from sawlog.groups.offsets.offset_table import OffsetTable
from sawlog.protocol.messages.group_metadata_key import GroupMetadataKey
from sawlog.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.core.errors import KafkaError
    from sawlog.core.ids import ProducerId
    from sawlog.groups.context import GroupContext
    from sawlog.groups.group import Group
    from sawlog.protocol.schema import Message


class GroupMachine:
    """Invariant: `groups` and `offsets` are the state that the log's records describe, plus parked
    requests and joins in progress, which are not written."""

    def __init__(self, context: "GroupContext") -> None:
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetTable()
        rebalancer = Rebalancer(context, self.groups)
        self.consumer = ConsumerMembership(context, self.groups, rebalancer)
        classic_members = ClassicMembers(context, self.consumer, self.consumer.switch)
        self.classic = ClassicMembership(context, self.groups, rebalancer, classic_members)
        self.offset_requests = OffsetRequests(context, self.groups, self.offsets, rebalancer)
        self.offset_expiration = OffsetExpiration(context, self.groups, self.offsets)
        self.admin = GroupAdmin(self.groups, self.offsets)
        self._replayers: dict[type[Message], Callable[[Any, Any], None]] = {
            LegacyOffsetCommitKey: self.offsets.replay,
            OffsetCommitKey: self.offsets.replay,
            GroupMetadataKey: self.classic.replay,
            **self.consumer.replayers,
        }

    def replay(self, entry: "Entry") -> None:
        self._replayers[type(entry.key)](entry.key, entry.value)

    def replay_pending(self, producer_id: "ProducerId", entry: "Entry") -> None:
        key = entry.key
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            value: Any = entry.value
            self.offsets.replay_pending(producer_id, key, value)
        else:  # as in Kafka; coordinators write no such records in transactions
            self.replay(entry)

    def end_transaction(self, producer_id: "ProducerId", *, is_commit: bool) -> None:
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def replay_encoded(self, key: bytes, value: bytes) -> bool:
        return self.offsets.replay_encoded(key, value)

    def activate(self) -> None:
        self.classic.activate()
        self.consumer.activate()
        self.offset_requests.activate()
        self.offset_expiration.activate()

    def deactivate(self, error: "KafkaError") -> None:
        self.classic.deactivate(error)

    def image_changed(self, old: "MetadataImage", new: "MetadataImage") -> Plan[None]:
        """Update the groups after topics were created, extended or deleted."""
        self.consumer.image_changed(old, new)
        return self.offset_expiration.delete_for_topics(old, new)
