"""The records of `__consumer_offsets`."""

from sawlog.coordinator.coordinator_records import RecordFormat
from sawlog.groups.offsets.commit_codec import encode_commit
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
    fast_encoders={OffsetCommitKey: encode_commit},
)
