"""What a heartbeat says: who sends it, whether it may, and what the member asks for from now on."""

from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId
from sawlog.groups.consumer import consumer_records
from sawlog.groups.consumer.consumer_member import JOINING_EPOCH, STATIC_LEAVING_EPOCH, Member

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
    """The partitions that the member says it has; None where it does not say."""
    if message.topic_partitions is None:
        return None
    return [(TopicId(topic.topic_id), topic.partitions) for topic in message.topic_partitions]


def is_full(message: "ConsumerGroupHeartbeatRequest") -> bool:
    """A member that tells all wants to be told all: it has lost an answer, or begins anew."""
    return (
        message.rebalance_timeout_ms != UNCHANGED
        and message.topic_partitions is not None
        and (
            message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None
        )
    )


def is_new(group: "ConsumerGroup", message: "ConsumerGroupHeartbeatRequest") -> bool:
    """A member that the others do not know yet, and that is no heir: it is put down first, so that
    many who come at once get one target, and not one target each. (One without an id would get
    another when it is looked at again; a pattern is looked up once.)"""
    return (
        message.member_epoch == JOINING_EPOCH
        and message.instance_id is None
        and not message.subscribed_topic_regex
        and message.member_id != ""
        and message.member_id not in group.members
    )


def dynamic_member(
    group: "ConsumerGroup", member_id: str, epoch: int, owned: "Owned | None"
) -> Member:
    """The member that a heartbeat without an instance id is from."""
    if epoch == JOINING_EPOCH:
        return group.members.get(member_id) or Member(member_id)
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
) -> Member:
    """The member behind an instance id. A new one takes the place of one that left for a while;
    the records of that go to `planned`."""
    if epoch != JOINING_EPOCH:
        member = known_instance(group, member_id, instance_id)
        check_epoch(member, epoch, owned)
        return member
    existing = group.static_member(instance_id)
    if existing is None:
        return group.members.get(member_id) or Member(member_id)
    if not existing.is_classic and existing.epoch != STATIC_LEAVING_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Instance id {instance_id} belongs to member {existing.id}, which has not left.",
        )
    return heir_of(group, existing, member_id, planned)


def heir_of(
    group: "ConsumerGroup", existing: Member, member_id: str, planned: "list[Entry]"
) -> Member:
    """A static member under a new id, with all that it had; the records of that go to `planned`."""
    heir = existing._replace(id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    planned += consumer_records.no_member(group.id, existing.id)
    planned.append(consumer_records.subscription(group.id, heir))
    planned.append(consumer_records.target(group.id, heir.id, group.targets.get(existing.id, {})))
    planned.append(consumer_records.current(group.id, heir))
    return heir


def known_instance(group: "ConsumerGroup", member_id: str, instance_id: str) -> Member:
    existing = group.static_member(instance_id)
    if existing is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is not known.")
    if existing.id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Member {existing.id} has taken instance id {instance_id} over from {member_id}.",
        )
    return existing


def check_epoch(member: Member, epoch: int, owned: "Owned | None") -> None:
    """One epoch behind is allowed: the answer with the new one may have been lost, as long as the
    member has nothing that was taken from it since."""
    if epoch == member.epoch:
        return
    is_one_behind = member.previous_epoch == epoch < member.epoch
    if is_one_behind and owned is not None and member.holds_only(owned):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member is in epoch {member.epoch}, not {epoch}. It must give up its partitions and "
        "rejoin.",
    )


def asked(member: Member, caller: "Caller", message: "ConsumerGroupHeartbeatRequest") -> Member:
    """The member with what this heartbeat changes; itself where that is nothing."""
    names, regex = message.subscribed_topic_names, message.subscribed_topic_regex
    instance_id, rack_id = message.instance_id, message.rack_id
    timeout_ms, assignor = message.rebalance_timeout_ms, message.server_assignor
    new = Member(
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
