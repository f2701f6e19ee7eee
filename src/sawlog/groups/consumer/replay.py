"""Replays the records of consumer groups: the only place where such a group changes.

A record creates its group and its member if they are missing, so that the order of records does not
matter; a tombstone for something unknown is ignored.
"""

from typing import TYPE_CHECKING, Any

from sawlog.core.ids import TopicId
from sawlog.groups.consumer.consumer_group import ConsumerGroup
from sawlog.groups.consumer.consumer_member import (
    LEAVING_EPOCH,
    NO_PARTITIONS,
    ConsumerMember,
    Holding,
    MemberState,
    ResolvedRegex,
)
from sawlog.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from sawlog.protocol.messages.consumer_group_member_metadata_key import (
    ConsumerGroupMemberMetadataKey,
)
from sawlog.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from sawlog.protocol.messages.consumer_group_partition_metadata_key import (
    ConsumerGroupPartitionMetadataKey,
)
from sawlog.protocol.messages.consumer_group_regular_expression_key import (
    ConsumerGroupRegularExpressionKey,
)
from sawlog.protocol.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from sawlog.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sawlog.groups.group import Group
    from sawlog.protocol.messages.consumer_group_current_member_assignment_value import (
        ConsumerGroupCurrentMemberAssignmentValue,
        TopicPartitions,
    )
    from sawlog.protocol.messages.consumer_group_member_metadata_value import (
        ConsumerGroupMemberMetadataValue,
    )
    from sawlog.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
    from sawlog.protocol.messages.consumer_group_partition_metadata_value import (
        ConsumerGroupPartitionMetadataValue,
    )
    from sawlog.protocol.messages.consumer_group_regular_expression_value import (
        ConsumerGroupRegularExpressionValue,
    )
    from sawlog.protocol.messages.consumer_group_target_assignment_member_value import (
        ConsumerGroupTargetAssignmentMemberValue,
    )
    from sawlog.protocol.messages.consumer_group_target_assignment_metadata_value import (
        ConsumerGroupTargetAssignmentMetadataValue,
    )
    from sawlog.protocol.schema import Message

NO_TARGET_EPOCH = -1


class ConsumerReplay:
    def __init__(self, groups: "dict[str, Group]") -> None:
        self._groups = groups
        self.replayers: Mapping[type[Message], Callable[[Any, Any], None]] = {
            ConsumerGroupMetadataKey: self._group,
            ConsumerGroupPartitionMetadataKey: self._partition_metadata,
            ConsumerGroupMemberMetadataKey: self._subscription,
            ConsumerGroupTargetAssignmentMetadataKey: self._target_epoch,
            ConsumerGroupTargetAssignmentMemberKey: self._target,
            ConsumerGroupCurrentMemberAssignmentKey: self._current,
            ConsumerGroupRegularExpressionKey: self._regex,
        }

    def _known(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _ensure(self, group_id: str) -> ConsumerGroup:
        """The group; a classic group with this id, which only has offsets, is replaced."""
        group = self._known(group_id)
        if group is None:
            group = self._groups[group_id] = ConsumerGroup(group_id)
        return group

    def _group(
        self, key: ConsumerGroupMetadataKey, value: "ConsumerGroupMetadataValue | None"
    ) -> None:
        if value is not None:
            self._ensure(key.group_id).set_epoch(value.epoch, value.metadata_hash)
        elif self._known(key.group_id) is not None:
            del self._groups[key.group_id]

    def _partition_metadata(
        self,
        key: ConsumerGroupPartitionMetadataKey,
        value: "ConsumerGroupPartitionMetadataValue | None",
    ) -> None:
        group = self._known(key.group_id) if value is None else self._ensure(key.group_id)
        if group is not None:
            group.set_partition_metadata(is_present=value is not None)

    def _subscription(
        self,
        key: ConsumerGroupMemberMetadataKey,
        value: "ConsumerGroupMemberMetadataValue | None",
    ) -> None:
        if value is None:
            group = self._known(key.group_id)
            if group is not None:
                group.drop(key.member_id)
            return
        group = self._ensure(key.group_id)
        group.put(
            group.members.get(key.member_id, ConsumerMember(key.member_id))._replace(
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                client_id=value.client_id,
                client_host=value.client_host,
                topics=frozenset(value.subscribed_topic_names),
                regex=value.subscribed_topic_regex,
                assignor=value.server_assignor,
                classic=value.classic_member_metadata,
            )
        )

    def _target_epoch(
        self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: "ConsumerGroupTargetAssignmentMetadataValue | None",
    ) -> None:
        if value is not None:
            group = self._ensure(key.group_id)
            group.set_target_epoch(value.assignment_epoch, value.assignment_timestamp)
            return
        known = self._known(key.group_id)
        if known is not None:
            known.set_target_epoch(NO_TARGET_EPOCH, 0)

    def _target(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: "ConsumerGroupTargetAssignmentMemberValue | None",
    ) -> None:
        if value is not None:
            target = {
                TopicId(topic.topic_id): frozenset(topic.partitions)
                for topic in value.topic_partitions
            }
            self._ensure(key.group_id).set_target(key.member_id, target)
            return
        known = self._known(key.group_id)
        if known is not None:
            known.drop_target(key.member_id)

    def _current(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: "ConsumerGroupCurrentMemberAssignmentValue | None",
    ) -> None:
        if value is not None:
            group = self._ensure(key.group_id)
            group.put(
                group.members.get(key.member_id, ConsumerMember(key.member_id))._replace(
                    epoch=value.member_epoch,
                    previous_epoch=value.previous_member_epoch,
                    state=MemberState.of(value.state),
                    assigned=_holding(value.assigned_partitions, value.member_epoch),
                    revoking=_holding(value.partitions_pending_revocation, value.member_epoch),
                )
            )
            return
        known = self._known(key.group_id)
        if known is not None and key.member_id in known.members:
            known.put(
                known.members[key.member_id]._replace(
                    epoch=LEAVING_EPOCH,
                    previous_epoch=LEAVING_EPOCH,
                    assigned=NO_PARTITIONS,
                    revoking=NO_PARTITIONS,
                )
            )

    def _regex(
        self,
        key: ConsumerGroupRegularExpressionKey,
        value: "ConsumerGroupRegularExpressionValue | None",
    ) -> None:
        if value is not None:
            self._ensure(key.group_id).set_resolved(
                key.regular_expression,
                ResolvedRegex(frozenset(value.topics), value.version, value.timestamp),
            )
            return
        known = self._known(key.group_id)
        if known is not None:
            known.drop_resolved(key.regular_expression)


def _holding(topics: "list[TopicPartitions]", member_epoch: int) -> Holding:
    """Brokers before 4.3 wrote no assignment epochs: the member's epoch takes their place."""
    found: dict[TopicId, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        found[TopicId(topic.topic_id)] = dict(zip(topic.partitions, epochs, strict=True))
    return found
