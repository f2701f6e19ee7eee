"""Builds the records of consumer groups; all values have version 0, as in Kafka."""

from typing import TYPE_CHECKING

from sawlog.coordinator.coordinator_records import Entry
from sawlog.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from sawlog.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from sawlog.protocol.messages.consumer_group_member_metadata_key import (
    ConsumerGroupMemberMetadataKey,
)
from sawlog.protocol.messages.consumer_group_member_metadata_value import (
    ConsumerGroupMemberMetadataValue,
)
from sawlog.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from sawlog.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from sawlog.protocol.messages.consumer_group_partition_metadata_key import (
    ConsumerGroupPartitionMetadataKey,
)
from sawlog.protocol.messages.consumer_group_regular_expression_key import (
    ConsumerGroupRegularExpressionKey,
)
from sawlog.protocol.messages.consumer_group_regular_expression_value import (
    ConsumerGroupRegularExpressionValue,
)
from sawlog.protocol.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from sawlog.protocol.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from sawlog.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from sawlog.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from sawlog.groups.consumer.consumer_member import (
        Assignment,
        ConsumerMember,
        Holding,
        ResolvedRegex,
    )


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Entry:
    return Entry(
        ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash)
    )


def group_tombstone(group_id: str) -> Entry:
    return Entry(ConsumerGroupMetadataKey(group_id), None)


def partition_metadata_tombstone(group_id: str) -> Entry:
    """Brokers up to 4.0 wrote the partitions of the topics; a hash has replaced them."""
    return Entry(ConsumerGroupPartitionMetadataKey(group_id), None)


def subscription(group_id: str, member: "ConsumerMember") -> Entry:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=member.classic,
    )
    return Entry(ConsumerGroupMemberMetadataKey(group_id, member.id), value)


def target_epoch(group_id: str, epoch: int, computed_ms: int) -> Entry:
    return Entry(
        ConsumerGroupTargetAssignmentMetadataKey(group_id),
        ConsumerGroupTargetAssignmentMetadataValue(epoch, computed_ms),
    )


def target_epoch_tombstone(group_id: str) -> Entry:
    return Entry(ConsumerGroupTargetAssignmentMetadataKey(group_id), None)


def target(group_id: str, member_id: str, assignment: "Assignment") -> Entry:
    value = ConsumerGroupTargetAssignmentMemberValue(
        [TopicPartition(topic_id, sorted(assignment[topic_id])) for topic_id in sorted(assignment)]
    )
    return Entry(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value)


def current(group_id: str, member: "ConsumerMember") -> Entry:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=_with_epochs(member.assigned),
        partitions_pending_revocation=_with_epochs(member.revoking),
    )
    return Entry(ConsumerGroupCurrentMemberAssignmentKey(group_id, member.id), value)


def _with_epochs(holding: "Holding") -> list[TopicPartitions]:
    found = []
    for topic_id in sorted(holding):
        epochs = holding[topic_id]
        partitions = sorted(epochs)
        found.append(
            TopicPartitions(topic_id, partitions, [epochs[partition] for partition in partitions])
        )
    return found


def current_tombstone(group_id: str, member_id: str) -> Entry:
    return Entry(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None)


def target_tombstone(group_id: str, member_id: str) -> Entry:
    return Entry(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None)


def subscription_tombstone(group_id: str, member_id: str) -> Entry:
    return Entry(ConsumerGroupMemberMetadataKey(group_id, member_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[Entry]:
    """The tombstones of a member, in the order that Kafka's replay requires."""
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        subscription_tombstone(group_id, member_id),
    ]


def regex(group_id: str, pattern: str, resolved: "ResolvedRegex") -> Entry:
    value = ConsumerGroupRegularExpressionValue(
        sorted(resolved.topics), resolved.version, resolved.at_ms
    )
    return Entry(ConsumerGroupRegularExpressionKey(group_id, pattern), value)


def regex_tombstone(group_id: str, pattern: str) -> Entry:
    return Entry(ConsumerGroupRegularExpressionKey(group_id, pattern), None)
