"""The records of whole groups, as a coordinator writes them, to set up a group with members."""

from collections.abc import Iterable, Mapping

from sawlog.coordinator.coordinator_records import Entry
from sawlog.protocol.codec import encode
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
from sawlog.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from sawlog.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from sawlog.protocol.messages.group_metadata_key import GroupMetadataKey
from sawlog.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata

LONG_MS = 24 * 3_600_000
"""By default sessions do not time out during a test."""


def classic_group(
    group: str,
    members: Mapping[str, Iterable[str]],
    *,
    generation: int = 1,
    protocol_type: str = "consumer",
    since_ms: int = -1,
    session_ms: int = LONG_MS,
) -> Entry:
    """A stable group with these members and their topics; an empty group without members."""
    described = [
        MemberMetadata(
            member_id=member,
            client_id="client",
            client_host="/host",
            rebalance_timeout=session_ms,
            session_timeout=session_ms,
            subscription=bytes(2) + encode(ConsumerProtocolSubscription(list(topics)), 0),
        )
        for member, topics in members.items()
    ]
    leader = next(iter(members), None)
    protocol = "range" if members else None
    value = GroupMetadataValue(
        protocol_type, generation, protocol, leader, since_ms, members=described
    )
    return Entry(GroupMetadataKey(group), value, 3)


def consumer_group(
    group: str,
    members: Mapping[str, Iterable[str]],
    *,
    epoch: int = 1,
    assigned: Mapping[str, tuple[bytes, int, int]] | None = None,
) -> list[Entry]:
    """A group with these members and their topics, all in this epoch; `assigned` has topic id,
    partition and assignment epoch by member."""
    entries = [
        Entry(ConsumerGroupMetadataKey(group), ConsumerGroupMetadataValue(epoch)),
        Entry(
            ConsumerGroupTargetAssignmentMetadataKey(group),
            ConsumerGroupTargetAssignmentMetadataValue(epoch),
        ),
    ]
    for member, topics in members.items():
        about = ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id="client",
            client_host="/host",
            subscribed_topic_names=list(topics),
            subscribed_topic_regex=None,
            rebalance_timeout_ms=LONG_MS,
            server_assignor=None,
        )
        held = []
        if assigned is not None and member in assigned:
            topic_id, partition, since = assigned[member]
            held = [TopicPartitions(topic_id, [partition], [since])]
        current = ConsumerGroupCurrentMemberAssignmentValue(epoch, epoch - 1, 0, held)
        entries += [
            Entry(ConsumerGroupMemberMetadataKey(group, member), about),
            Entry(ConsumerGroupCurrentMemberAssignmentKey(group, member), current),
        ]
    return entries
