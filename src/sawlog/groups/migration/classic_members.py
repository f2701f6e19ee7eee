"""Classic members of consumer groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup on the state
of a consumer group (KIP-848).

The generation of such a member is its epoch. A join has the effect of a ConsumerGroupHeartbeat; the
member joins once to revoke partitions and again when its new partitions are free. A heartbeat tells
it when to rejoin; it has a timeout for that, and another one to sync after a join.
"""

from typing import TYPE_CHECKING

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.core.event_logger import EventLogger
from sawlog.groups.classic.classic_member import CONSUMER_PROTOCOL
from sawlog.groups.classic.classic_responses import NO_MEMBER, join_error, leave_response
from sawlog.groups.classic.join_group import FIRST_VERSION_WITH_REQUIRED_ID
from sawlog.groups.consumer import heartbeat_checks
from sawlog.groups.consumer.consumer_member import UNRELEASED, UNREVOKED, ConsumerMember
from sawlog.groups.consumer.heartbeat_plan import HeartbeatPlan
from sawlog.groups.migration.member_assignments import by_topic_id, write_assignment
from sawlog.protocol.consumer_protocol import read_subscription, version_of
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
_NO_ERROR = HeartbeatResponse()
_REBALANCING = HeartbeatResponse(error_code=int(ErrorCode.REBALANCE_IN_PROGRESS))


class ClassicMembers:
    """Serves the requests of classic members of consumer groups."""

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
    ) -> Plan[JoinGroupResponse]:
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
        member = _updated_member(before, caller, message, subscription)
        replaced = None if instance_id is None else group.static_member(instance_id)
        if replaced is not None and self._switch.is_due_for_replacement(group, replaced):
            return self._switch.downgrade_for_replacement(group, replaced, member, respond)
        if member_id not in group.members:
            logger.info(
                "member joins",
                group=group.id,
                member=member_id,
                instance=instance_id,
                client=caller.client_id,
                host=caller.host,
            )
        plan = HeartbeatPlan(self._consumer.rules, group, before, member, planned)
        plan.run(self._owned_in(subscription))
        member = plan.member
        timeouts = self._consumer.timeouts
        timeouts.renew_session(group.id, member.id, message.session_timeout_ms)
        timeouts.await_sync(group.id, member)
        reply = JoinGroupResponse(
            generation_id=member.epoch,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=message.protocols[0].name,
            member_id=member.id,
        )
        return Plan(reply, planned)

    def _owned_in(self, subscription: "ConsumerProtocolSubscription") -> "Owned":
        """The reported partitions; an eager member reports none, because it revoked all of them."""
        partitions = ((topic.topic, topic.partitions) for topic in subscription.owned_partitions)
        owned = by_topic_id(partitions, self._context.image)
        return [(topic_id, sorted(indexes)) for topic_id, indexes in owned.items()]

    # SyncGroup

    def sync(self, group: "ConsumerGroup", message: "SyncGroupRequest") -> Plan[SyncGroupResponse]:
        member = _member_of(group, message.member_id, message.group_instance_id)
        classic = _classic_part(member, message.generation_id)
        protocol = classic.supported_protocols[0]
        if message.protocol_type not in (None, CONSUMER_PROTOCOL) or message.protocol_name not in (
            None,
            protocol.name,
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        timeouts = self._consumer.timeouts
        if group.target_epoch > member.epoch and member.state is not UNREVOKED:
            timeouts.await_join(group.id, member)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        timeouts.cancel_sync(group.id, member.id)
        timeouts.renew_session(group.id, member.id, classic.session_timeout_ms)
        version = version_of(protocol.metadata)
        reply = SyncGroupResponse(
            protocol_type=message.protocol_type,
            protocol_name=message.protocol_name,
            assignment=write_assignment(member.assigned, version, self._context.image),
        )
        return Plan(reply)

    # Heartbeat

    def heartbeat(
        self, group: "ConsumerGroup", message: "HeartbeatRequest"
    ) -> Plan[HeartbeatResponse]:
        member = _member_of(group, message.member_id, message.group_instance_id)
        classic = _classic_part(member, message.generation_id)
        timeouts = self._consumer.timeouts
        timeouts.renew_session(group.id, member.id, classic.session_timeout_ms)
        if not _should_join(group, member) and not self._must_rejoin_to_compute(group):
            return Plan(_NO_ERROR)
        timeouts.await_join(group.id, member)
        return Plan(_REBALANCING)

    def _must_rejoin_to_compute(self, group: "ConsumerGroup") -> bool:
        """Whether the target is out of date and only the join of a classic member can compute a new
        one. Kafka does not rebalance then (KAFKA-20272), and partitions stay unassigned."""
        is_outdated = group.target_epoch < group.epoch
        is_all_classic = group.classic_members == len(group.members)
        return is_outdated and is_all_classic and self._consumer.rules.may_compute(group)

    # LeaveGroup

    def leave(
        self, group: "ConsumerGroup", message: "LeaveGroupRequest"
    ) -> Plan[LeaveGroupResponse]:
        """Remove members of either protocol: an admin client may remove any."""
        responses = []
        leaving: dict[str, ConsumerMember] = {}
        for identity in message.members:
            try:
                member = _leaving_member(group, identity)
            except KafkaError as error:
                responses.append(leave_response(identity, error.code))
            else:
                responses.append(leave_response(identity))
                leaving[member.id] = member
                logger.info(
                    "member leaves", group=group.id, member=member.id, reason=identity.reason
                )
        reply = LeaveGroupResponse(members=responses)
        return self._consumer.fence(group, list(leaving.values()), reply)


def _check_protocols(group: "ConsumerGroup", message: "JoinGroupRequest") -> None:
    """All classic members must have a protocol in common, because the group may be downgraded."""
    names = [protocol.name for protocol in message.protocols]
    common = any(group.classic_protocols.get(name, 0) == group.classic_members for name in names)
    if message.protocol_type != CONSUMER_PROTOCOL or not common:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription_in(message: "JoinGroupRequest") -> "ConsumerProtocolSubscription":
    """The subscription is the same in all protocols of a member."""
    try:
        return read_subscription(message.protocols[0].metadata)
    except MalformedFrame as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The subscription cannot be decoded: {error}."
        ) from error


def _sender(
    group: "ConsumerGroup",
    member_id: str,
    instance_id: str | None,
    planned: "list[Entry]",
    *,
    is_new: bool,
) -> ConsumerMember:
    """The member that sent a join; if it replaces a static member, the records of that are added to
    `planned`."""
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if not is_new:
        return heartbeat_checks.known_instance(group, member_id, instance_id)
    existing = group.static_member(instance_id)
    if existing is None:
        return ConsumerMember(member_id)
    return heartbeat_checks.replace_static_member(group, existing, member_id, planned)


def _updated_member(
    member: ConsumerMember,
    caller: "Caller",
    message: "JoinGroupRequest",
    subscription: "ConsumerProtocolSubscription",
) -> ConsumerMember:
    """The member with the changes of this join; the same object if there are none."""
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


def _member_of(group: "ConsumerGroup", member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is None:
        return group.member(member_id)
    return heartbeat_checks.known_instance(group, member_id, instance_id)


def _classic_part(member: ConsumerMember, generation: int) -> ClassicMemberMetadata:
    if member.classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.id} uses the consumer protocol."
        )
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member.classic


def _should_join(group: "ConsumerGroup", member: ConsumerMember) -> bool:
    """Whether there is a new target, partitions to revoke, or all that it waits for is free."""
    if member.epoch < group.target_epoch or member.state is UNREVOKED:
        return True
    return member.state is UNRELEASED and not _waits_for_others(group, member)


def _waits_for_others(group: "ConsumerGroup", member: ConsumerMember) -> bool:
    for topic_id, target in group.targets.get(member.id, {}).items():
        assigned, owners = member.assigned.get(topic_id, {}), group.owners_of(topic_id)
        if any(index in owners for index in target if index not in assigned):
            return True
    return False


def _leaving_member(group: "ConsumerGroup", identity: "MemberIdentity") -> ConsumerMember:
    """The member to remove; an admin client sends the instance id only (KIP-345)."""
    instance_id = identity.group_instance_id
    if instance_id is not None and identity.member_id == NO_MEMBER:
        member = group.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member
    return _member_of(group, identity.member_id, instance_id)
