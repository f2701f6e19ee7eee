"""Upgrade: a classic group becomes a consumer group when the first consumer protocol member joins.

Its members keep their subscriptions and assignments and use the classic protocol until they are
replaced; the group epoch is their last generation. The assignment of their leader becomes the
target, so that members do not stop reading partitions that they keep.
"""

from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.groups.classic.classic_member import CONSUMER_PROTOCOL, NO_ASSIGNMENT
from sawlog.groups.consumer import consumer_records
from sawlog.groups.consumer.consumer_group import ConsumerGroup
from sawlog.groups.consumer.consumer_member import ConsumerMember
from sawlog.groups.migration.member_assignments import by_topic_id
from sawlog.protocol.consumer_protocol import read_assignment, read_subscription
from sawlog.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
)

if TYPE_CHECKING:
    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ids import TopicId
    from sawlog.groups.classic.classic_group import ClassicGroup
    from sawlog.groups.classic.classic_member import ClassicMember

POLICIES = frozenset({"upgrade", "bidirectional"})
"""Values of group.consumer.migration.policy that allow it."""


NO_METADATA_HASH = 0
NOT_COMPUTED_MS = 0


def check_upgrade(group: "ClassicGroup", config: "BrokerConfig") -> None:
    """GROUP_ID_NOT_FOUND if this group may not become a consumer group."""
    if config["group.consumer.migration.policy"].lower() not in POLICIES:
        raise refusal(group, "group.consumer.migration.policy does not allow it")
    if group.protocol_type != CONSUMER_PROTOCOL:
        raise refusal(group, "its members are not consumers")
    if len(group.members) > config["group.consumer.max.size"]:
        raise refusal(group, "it has more members than group.consumer.max.size")


def refusal(group: "ClassicGroup", reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Classic group {group.id} cannot become a consumer group: {reason}.",
    )


def consumer_group_of(group: "ClassicGroup", image: "MetadataImage") -> ConsumerGroup:
    """The consumer group with the members of a classic group; the caller sets the metadata hash.

    GROUP_ID_NOT_FOUND if a subscription or an assignment is damaged, or if the assignor of the
    clients adds user data to assignments, which would be lost.
    """
    upgraded = ConsumerGroup(group.id)
    upgraded.set_epoch(group.generation, NO_METADATA_HASH)
    upgraded.set_target_epoch(group.generation, NOT_COMPUTED_MS)
    try:
        for member in group.members.values():
            target = _assignment_of(group, member, image)
            upgraded.put(_consumer_member(group, member, target))
            upgraded.set_target(member.id, target)
    except MalformedFrame as error:
        raise refusal(group, "a subscription or an assignment is damaged") from error
    return upgraded


def _assignment_of(
    group: "ClassicGroup", member: "ClassicMember", image: "MetadataImage"
) -> "dict[TopicId, frozenset[int]]":
    if member.assignment == NO_ASSIGNMENT:
        return {}  # the member has not synced
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise refusal(group, "its assignor adds user data to assignments")
    return by_topic_id(
        ((topic.topic, topic.partitions) for topic in assignment.assigned_partitions), image
    )


def _consumer_member(
    group: "ClassicGroup", member: "ClassicMember", target: "dict[TopicId, frozenset[int]]"
) -> ConsumerMember:
    offered = member.metadata(group.protocol) or member.protocols[0].metadata
    subscription = read_subscription(offered)
    protocols = [ClassicProtocol(offer.name, offer.metadata) for offer in member.protocols]
    return ConsumerMember(
        id=member.id,
        epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        assigned={
            topic_id: dict.fromkeys(sorted(indexes), group.generation)
            for topic_id, indexes in target.items()
        },
        classic=ClassicMemberMetadata(member.session_timeout_ms, protocols),
    )


def entries_of(group: ConsumerGroup) -> "list[Entry]":
    """All records of a consumer group."""
    members = group.members.values()
    return [
        *(consumer_records.subscription(group.id, member) for member in members),
        consumer_records.group_epoch(group.id, group.epoch, group.metadata_hash),
        *(
            consumer_records.target(group.id, member.id, group.targets[member.id])
            for member in members
        ),
        consumer_records.target_epoch(group.id, group.target_epoch, group.target_ms),
        *(consumer_records.current(group.id, member) for member in members),
    ]
