"""The records of `__consumer_offsets`, and which of its partitions a group lives in."""

from functools import lru_cache

from sawlog.coordinator.records import RecordFormat
from sawlog.core.java import string_hash
from sawlog.groups.offsets.quick import encode_commit
from sawlog.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from sawlog.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
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
from sawlog.protocol.messages.consumer_group_partition_metadata_value import (
    ConsumerGroupPartitionMetadataValue,
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
)
from sawlog.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from sawlog.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from sawlog.protocol.messages.group_metadata_key import GroupMetadataKey
from sawlog.protocol.messages.group_metadata_value import GroupMetadataValue
from sawlog.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from sawlog.protocol.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
from sawlog.protocol.messages.offset_commit_value import OffsetCommitValue

MAX_KNOWN_GROUPS = 10_000
"""So many groups are hashed once, and not for each of their requests."""

LONGEST_KNOWN_ID = 300
"""Anybody can ask for groups that are not there, under names of 32 KB."""

GROUP_RECORDS = RecordFormat(
    (LegacyOffsetCommitKey, LegacyOffsetCommitValue),
    (OffsetCommitKey, OffsetCommitValue),
    (GroupMetadataKey, GroupMetadataValue),
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    quick={OffsetCommitKey: encode_commit},
)


def partition_for(group_id: str, partitions: int) -> int:
    """As Kafka has it: Java's hash of the name, its sign taken off, modulo the partitions."""
    if len(group_id) <= LONGEST_KNOWN_ID:
        return _known_partition_for(group_id, partitions)
    return _partition_for(group_id, partitions)


def _partition_for(group_id: str, partitions: int) -> int:
    value = string_hash(group_id)
    if value >= 0x80000000:
        value = 0x100000000 - value
    return (value & 0x7FFFFFFF) % partitions


_known_partition_for = lru_cache(MAX_KNOWN_GROUPS)(_partition_for)
