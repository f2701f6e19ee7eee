"""Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat and
LeaveGroup over the state of the consumer group (KIP-848).

Such a member's generation is its epoch. A join does what a heartbeat of the other protocol does,
and the assignment is what the member may have now, so that it joins once to give partitions up and
once more when others have. A heartbeat tells it when. It has a time in which to join when it was
told to, and one in which to sync when it joined.
"""

from typing import TYPE_CHECKING

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.core.event_logger import EventLogger
from sawlog.groups.classic.classic_member import CONSUMER_PROTOCOL
from sawlog.groups.classic.classic_responses import NO_MEMBER, join_error, left
from sawlog.groups.classic.join_group import FIRST_VERSION_WITH_REQUIRED_ID
from sawlog.groups.consumer import heartbeat_checks
from sawlog.groups.consumer.consumer_member import UNRELEASED, UNREVOKED, Member
from sawlog.groups.consumer.heartbeat_plan import HeartbeatPlan
from sawlog.groups.migration.subscription_codec import (
    by_topic_id,
    read_subscription,
    version_of,
    write_assignment,
)
from sawlog.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from sawlog.protocol.messages.heartbeat_response import HeartbeatResponse
from sawlog.protocol.messages.join_group_response import JoinGroupResponse
from sawlog.protocol.messages.leave_group_response import LeaveGroupResponse
from sawlog.protocol.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.groups.classic.classic_group import Respond
    from sawlog.groups.consumer.consumer_group import ConsumerGroup
    from sawlog.groups.consumer.consumer_membership import ConsumerMembership
    from sawlog.groups.consumer.reconciliation import Owned
    from sawlog.groups.context import Caller, GroupContext
    from sawlog.groups.migration.protocol_switch import ProtocolSwitch
    from sawlog.protocol.messages.consumer_protocol_subscription import (
        ConsumerProtocolSubscription,
    )
    from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
    from sawlog.protocol.messages.join_group_request import JoinGroupRequest
    from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
    from sawlog.protocol.messages.sync_group_request import SyncGroupRequest

UNSET = -1

logger = EventLogger(__name__)
_ALIVE = HeartbeatResponse()
_COME_AGAIN = HeartbeatResponse(error_code=int(ErrorCode.REBALANCE_IN_PROGRESS))


class ClassicMembers:
    def __init__(
        self, context: "GroupContext", consumer: "ConsumerMembership", switch: "ProtocolSwitch"
    ) -> None:
        self._context = context
        self._consumer = consumer
        self._switch = switch

    # JoinGroup

    def join(
        self,
        caller: "Caller",
        group: "ConsumerGroup",
        message: "JoinGroupRequest",
        respond: "Respond",
    ) -> Plan:
        member_id = message.member_id or self._consumer.new_member_id()
        self._consumer.check_room(group, member_id)
        _check_protocols(group, message)
        instance_id = message.group_instance_id
        is_new = message.member_id == NO_MEMBER
        if is_new and instance_id is None and caller.api_version >= FIRST_VERSION_WITH_REQUIRED_ID:
            return Plan(join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        subscription = _subscription_in(message)
        planned: list[Entry] = []
        before = _sender(group, member_id, instance_id, planned, is_new=is_new)
        member = _asked(before, caller, message, subscription)
        replaced = None if instance_id is None else group.static_member(instance_id)
        if replaced is not None and self._switch.is_due_for(group, replaced):
            return self._switch.downgrade_for(group, replaced, member, respond)
        if member_id not in group.members:
            logger.info(
                "member joins",
                group=group.id,
                member=member_id,
                instance=instance_id,
                client=caller.client_id,
                host=caller.host,
            )
        round_ = HeartbeatPlan(self._consumer.rules, group, before, member, planned)
        round_.run(self._owned_in(subscription))
        member = round_.member
        clocks = self._consumer.clocks
        clocks.hear(group.id, member.id, message.session_timeout_ms)
        clocks.await_sync(group.id, member)
        reply = JoinGroupResponse(
            generation_id=member.epoch,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=message.protocols[0].name,
            member_id=member.id,
        )
        return Plan(reply, planned)

    def _owned_in(self, subscription: "ConsumerProtocolSubscription") -> "Owned":
        """Who does not say what it has, has nothing: an eager member gave all up before it came."""
        partitions = ((topic.topic, topic.partitions) for topic in subscription.owned_partitions)
        owned = by_topic_id(partitions, self._context.image)
        return [(topic_id, sorted(indexes)) for topic_id, indexes in owned.items()]

    # SyncGroup

    def sync(self, group: "ConsumerGroup", message: "SyncGroupRequest") -> Plan:
        member = _member_of(group, message.member_id, message.group_instance_id)
        classic = _classic_part(member, message.generation_id)
        protocol = classic.supported_protocols[0]
        if message.protocol_type not in (None, CONSUMER_PROTOCOL) or message.protocol_name not in (
            None,
            protocol.name,
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        clocks = self._consumer.clocks
        if group.target_epoch > member.epoch and member.state is not UNREVOKED:
            clocks.await_join(group.id, member)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        clocks.synced(group.id, member.id)
        clocks.hear(group.id, member.id, classic.session_timeout_ms)
        version = version_of(protocol.metadata)
        reply = SyncGroupResponse(
            protocol_type=message.protocol_type,
            protocol_name=message.protocol_name,
            assignment=write_assignment(member.assigned, version, self._context.image),
        )
        return Plan(reply)

    # Heartbeat

    def heartbeat(self, group: "ConsumerGroup", message: "HeartbeatRequest") -> Plan:
        member = _member_of(group, message.member_id, message.group_instance_id)
        classic = _classic_part(member, message.generation_id)
        clocks = self._consumer.clocks
        clocks.hear(group.id, member.id, classic.session_timeout_ms)
        if not _should_join(group, member) and not self._must_compute(group):
            return Plan(_ALIVE)
        clocks.await_join(group.id, member)
        return Plan(_COME_AGAIN)

    def _must_compute(self, group: "ConsumerGroup") -> bool:
        """The target is out of date, and there are guests alone: only a join of theirs computes
        another. Kafka leaves it as it is (KAFKA-20272), and what others read who left to nobody.
        """
        is_old = group.target_epoch < group.epoch
        is_theirs = group.classic_members == len(group.members)
        return is_old and is_theirs and self._consumer.rules.may_compute(group)

    # LeaveGroup

    def leave(self, group: "ConsumerGroup", message: "LeaveGroupRequest") -> Plan:
        """Also of members that are not classic: an admin may put out whom he likes."""
        answers = []
        leaving: dict[str, Member] = {}
        for identity in message.members:
            try:
                member = _leaving(group, identity)
            except KafkaError as error:
                answers.append(left(identity, error.code))
            else:
                answers.append(left(identity))
                leaving[member.id] = member
                logger.info(
                    "member leaves", group=group.id, member=member.id, reason=identity.reason
                )
        reply = LeaveGroupResponse(members=answers)
        return self._consumer.fence(group, list(leaving.values()), reply)


def _check_protocols(group: "ConsumerGroup", message: "JoinGroupRequest") -> None:
    """All classic members must have a protocol in common, for the day when they are alone."""
    names = [protocol.name for protocol in message.protocols]
    common = any(group.classic_protocols.get(name, 0) == group.classic_members for name in names)
    if message.protocol_type != CONSUMER_PROTOCOL or not common:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription_in(message: "JoinGroupRequest") -> "ConsumerProtocolSubscription":
    """The same under all its protocols."""
    try:
        return read_subscription(message.protocols[0].metadata)
    except MalformedFrame as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"No subscription: {error}.") from error


def _sender(
    group: "ConsumerGroup",
    member_id: str,
    instance_id: str | None,
    planned: "list[Entry]",
    *,
    is_new: bool,
) -> Member:
    """The member that a join is from; the records of a static member that takes the place of
    another go to `planned`."""
    if instance_id is None:
        return group.members.get(member_id) or Member(member_id)
    if not is_new:
        return heartbeat_checks.known_instance(group, member_id, instance_id)
    existing = group.static_member(instance_id)
    if existing is None:
        return Member(member_id)
    return heartbeat_checks.heir_of(group, existing, member_id, planned)


def _asked(
    member: Member,
    caller: "Caller",
    message: "JoinGroupRequest",
    subscription: "ConsumerProtocolSubscription",
) -> Member:
    """The member with what this join changes; itself where that is nothing."""
    timeout_ms = message.rebalance_timeout_ms
    protocols = [ClassicProtocol(offer.name, offer.metadata) for offer in message.protocols]
    new = member._replace(
        instance_id=message.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == UNSET else timeout_ms,
        client_id=caller.client_id,
        client_host=caller.host,
        topics=frozenset(subscription.topics),
        regex="",
        classic=ClassicMemberMetadata(message.session_timeout_ms, protocols),
    )
    return member if new == member else new


def _member_of(group: "ConsumerGroup", member_id: str, instance_id: str | None) -> Member:
    if instance_id is None:
        return group.member(member_id)
    return heartbeat_checks.known_instance(group, member_id, instance_id)


def _classic_part(member: Member, generation: int) -> ClassicMemberMetadata:
    if member.classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.id} speaks the consumer protocol."
        )
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member.classic


def _should_join(group: "ConsumerGroup", member: Member) -> bool:
    """There is a new target, or it has something to give up, or what it waits for is free."""
    if member.epoch < group.target_epoch or member.state is UNREVOKED:
        return True
    return member.state is UNRELEASED and not _waits_for_others(group, member)


def _waits_for_others(group: "ConsumerGroup", member: Member) -> bool:
    for topic_id, target in group.targets.get(member.id, {}).items():
        assigned, owners = member.assigned.get(topic_id, {}), group.owners_of(topic_id)
        if any(index in owners for index in target if index not in assigned):
            return True
    return False


def _leaving(group: "ConsumerGroup", identity: "MemberIdentity") -> Member:
    """Who is meant; an admin knows only the instance (KIP-345)."""
    instance_id = identity.group_instance_id
    if instance_id is not None and identity.member_id == NO_MEMBER:
        member = group.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member
    return _member_of(group, identity.member_id, instance_id)
