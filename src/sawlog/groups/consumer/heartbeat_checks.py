"""Checks a heartbeat and finds the member that sent it."""

from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId
from sawlog.groups.consumer import consumer_records
from sawlog.groups.consumer.consumer_member import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
)

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.groups.consumer.consumer_group import ConsumerGroup
    from sawlog.groups.consumer.reconciliation import Owned
    from sawlog.groups.context import Caller
    from sawlog.protocol.messages.consumer_group_heartbeat_request import (
        ConsumerGroupHeartbeatRequest,
    )

UNCHANGED = -1


def owned_in(message: "ConsumerGroupHeartbeatRequest") -> "Owned | None":
    """The partitions that the member reports to own; None if it reports none."""
    if message.topic_partitions is None:
        return None
    return [(TopicId(topic.topic_id), topic.partitions) for topic in message.topic_partitions]


def is_full(message: "ConsumerGroupHeartbeatRequest") -> bool:
    """Whether the heartbeat has all fields: the response must include the assignment, because the
    member lost a response or restarted."""
    return (
        message.rebalance_timeout_ms != UNCHANGED
        and message.topic_partitions is not None
        and (
            message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None
        )
    )


def is_new(group: "ConsumerGroup", message: "ConsumerGroupHeartbeatRequest") -> bool:
    """Whether a dynamic member joins that is not in the group yet. Its subscription is written
    first, so that members that join at the same time share one computation of the target.

    Members without an id are excluded, because the second run would generate another id.
    """
    return (
        message.member_epoch == JOINING_EPOCH
        and message.instance_id is None
        and not message.subscribed_topic_regex
        and message.member_id != ""
        and message.member_id not in group.members
    )


def dynamic_member(
    group: "ConsumerGroup", member_id: str, epoch: int, owned: "Owned | None"
) -> ConsumerMember:
    """The member that sent a heartbeat without an instance id."""
    if epoch == JOINING_EPOCH:
        return group.members.get(member_id) or ConsumerMember(member_id)
    member = group.member(member_id)
    check_epoch(member, epoch, owned)
    return member


def static_member(
    group: "ConsumerGroup",
    member_id: str,
    instance_id: str,
    epoch: int,
    owned: "Owned | None",
    planned: "list[Entry]",
) -> ConsumerMember:
    """The member that sent a heartbeat with an instance id. It may replace one that left
    temporarily; the records of that are added to `planned`."""
    if epoch != JOINING_EPOCH:
        member = known_instance(group, member_id, instance_id)
        check_epoch(member, epoch, owned)
        return member
    existing = group.static_member(instance_id)
    if existing is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if not existing.is_classic and existing.epoch != STATIC_LEAVING_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Instance id {instance_id} is in use by member {existing.id}.",
        )
    return replace_static_member(group, existing, member_id, planned)


def replace_static_member(
    group: "ConsumerGroup", existing: ConsumerMember, member_id: str, planned: "list[Entry]"
) -> ConsumerMember:
    """Move a static member to a new id with all its state; the records are added to `planned`."""
    member = existing._replace(id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    planned += consumer_records.member_tombstones(group.id, existing.id)
    planned.append(consumer_records.subscription(group.id, member))
    planned.append(consumer_records.target(group.id, member.id, group.targets.get(existing.id, {})))
    planned.append(consumer_records.current(group.id, member))
    return member


def known_instance(group: "ConsumerGroup", member_id: str, instance_id: str) -> ConsumerMember:
    existing = group.static_member(instance_id)
    if existing is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if existing.id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Instance id {instance_id} belongs to member {existing.id}, not to {member_id}.",
        )
    return existing


def check_epoch(member: ConsumerMember, epoch: int, owned: "Owned | None") -> None:
    """FENCED_MEMBER_EPOCH if the epoch is wrong. The previous epoch is accepted, because the last
    response may be lost, if the member owns only partitions that are still assigned to it."""
    if epoch == member.epoch:
        return
    is_one_behind = member.previous_epoch == epoch < member.epoch
    if is_one_behind and owned is not None and member.owns_only_assigned(owned):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member epoch is {member.epoch}, not {epoch}. The member must abandon all its "
        "partitions and rejoin.",
    )


def updated_member(
    member: ConsumerMember, caller: "Caller", message: "ConsumerGroupHeartbeatRequest"
) -> ConsumerMember:
    """The member with the changes of this heartbeat; the same object if there are none."""
    names, regex = message.subscribed_topic_names, message.subscribed_topic_regex
    instance_id, rack_id = message.instance_id, message.rack_id
    timeout_ms, assignor = message.rebalance_timeout_ms, message.server_assignor
    new = ConsumerMember(
        member.id,
        member.epoch,
        member.previous_epoch,
        member.state,
        member.instance_id if instance_id is None else instance_id,
        member.rack_id if rack_id is None else rack_id,
        member.rebalance_timeout_ms if timeout_ms == UNCHANGED else timeout_ms,
        caller.client_id,
        caller.host,
        member.topics if names is None else frozenset(names),
        member.regex if regex is None else regex,
        member.assignor if assignor is None else assignor,
        member.assigned,
        member.revoking,
        None,
    )
    return member if new == member else new
