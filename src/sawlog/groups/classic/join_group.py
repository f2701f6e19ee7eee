"""JoinGroup: a client becomes a member of a classic group, or a member rejoins.

A dynamic member first gets an id, with which it has to join again (KIP-394, from version 4), so
that a client that retries does not become several members. A static member (KIP-345) that rejoins
without an id replaces its former self; a stable group stays stable if the elected protocol does not
change.
"""

from typing import TYPE_CHECKING

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_member import ClassicMember, Protocol
from sawlog.groups.classic.classic_responses import (
    NO_MEMBER,
    join_error,
    join_response,
    static_rejoin_response,
)
from sawlog.groups.classic.classic_states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from sawlog.groups.classic.rebalance import NEW_MEMBER_TIMEOUT_MS
from sawlog.protocol.messages.join_group_response import JoinGroupResponse

if TYPE_CHECKING:
    from sawlog.groups.classic.classic_group import Respond
    from sawlog.groups.classic.group_change import GroupChange
    from sawlog.groups.classic.rebalance import Rebalancer
    from sawlog.groups.context import Caller, GroupContext
    from sawlog.groups.group import Group
    from sawlog.protocol.messages.join_group_request import JoinGroupRequest

FIRST_VERSION_WITH_REQUIRED_ID = 4
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT = 9
MAX_ID_PREFIX = 8_000
"""A member id starts with a name that the client chose; the id must fit into a protocol string."""


class Join:
    """One JoinGroup request and the change that it makes."""

    __slots__ = ("caller", "change", "message", "protocols", "respond")

    def __init__(
        self,
        caller: "Caller",
        message: "JoinGroupRequest",
        respond: "Respond",
        change: "GroupChange",
    ) -> None:
        self.caller = caller
        self.message = message
        self.respond = respond
        self.change = change
        self.protocols = tuple(Protocol(offer.name, offer.metadata) for offer in message.protocols)

    @property
    def protocol_names(self) -> frozenset[str]:
        return frozenset(protocol.name for protocol in self.protocols)

    def refuse(self, code: ErrorCode, member_id: str = NO_MEMBER) -> Plan[JoinGroupResponse]:
        return self.change.plan(join_error(code, member_id))

    def park(self, member_id: str) -> None:
        self.change.park_join(member_id, self.respond)

    def reason(self, event: str) -> str:
        """The reason of a rebalance, for the log (KIP-800)."""
        return f"{event}; client reason: {self.message.reason or 'not provided'}"


class JoinGroup:
    def __init__(
        self, context: "GroupContext", groups: "dict[str, Group]", rebalancer: "Rebalancer"
    ) -> None:
        self._context = context
        self._groups = groups
        self._rebalancer = rebalancer

    def join(
        self, caller: "Caller", message: "JoinGroupRequest", respond: "Respond"
    ) -> Plan[JoinGroupResponse]:
        """Join a classic group, a new group, or an empty group of another type."""
        known = self._groups.get(message.group_id)
        if isinstance(known, ClassicGroup):
            change = self._rebalancer.change(known)
        elif message.member_id != NO_MEMBER:
            return Plan(join_error(ErrorCode.UNKNOWN_MEMBER_ID, message.member_id))
        else:
            group = ClassicGroup(message.group_id, self._context.clock.now_ms())
            change = self._rebalancer.change(group)
            if known is not None:
                change.add_entries(known.tombstones())
            change.write()
        join = Join(caller, message, respond, change)
        if not self._has_room(change.group, message.member_id):
            return self._refuse_for_size(join)
        if message.member_id == NO_MEMBER:
            return self._join_without_id(join)
        return self._join_with_id(join)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """During a rebalance the members that have rejoined count: if `group.max.size` was lowered,
        the last ones to rejoin are refused."""
        if group.state in (EMPTY, DEAD):
            return True
        limit: int = self._context.config["group.max.size"]
        if group.state is PREPARING:
            return member_id in group.waiting_joins or len(group.waiting_joins) < limit
        return member_id in group.members or len(group.members) < limit

    def _refuse_for_size(self, join: Join) -> Plan[JoinGroupResponse]:
        if join.message.member_id != NO_MEMBER:
            join.change.remove(join.message.member_id)
            self._rebalancer.try_complete(join.change)
        return join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)

    # Without a member id

    def _join_without_id(self, join: Join) -> Plan[JoinGroupResponse]:
        message, group = join.message, join.change.group
        if group.state is DEAD:
            return join.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not group.supports(message.protocol_type, join.protocol_names):
            return join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        instance_id = message.group_instance_id
        prefix = join.caller.client_id if instance_id is None else instance_id
        member_id = f"{prefix[:MAX_ID_PREFIX]}-{self._context.new_uuid()}"
        if instance_id is not None:
            old_id = group.static_ids.get(instance_id)
            if old_id is not None:
                return self._replace_static(join, old_id, member_id)
        elif join.caller.api_version >= FIRST_VERSION_WITH_REQUIRED_ID:
            group.add_pending(member_id)
            self._rebalancer.set_session(join.change, member_id, message.session_timeout_ms)
            return join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return self._add(join, member_id)

    def _add(self, join: Join, member_id: str) -> Plan[JoinGroupResponse]:
        message, change = join.message, join.change
        member = ClassicMember(
            member_id,
            message.group_instance_id,
            join.caller.client_id,
            join.caller.host,
            message.rebalance_timeout_ms,
            message.session_timeout_ms,
            join.protocols,
        )
        change.group.add_newcomer(member, message.protocol_type)
        join.park(member_id)
        self._rebalancer.set_session(change, member_id, NEW_MEMBER_TIMEOUT_MS)
        self._rebalancer.begin_or_complete(change, join.reason(f"{member_id} joins"))
        return change.plan()

    def _replace_static(self, join: Join, old_id: str, member_id: str) -> Plan[JoinGroupResponse]:
        """Replace a static member by its new id; a client that still uses the old id is fenced."""
        change, rebalancer = join.change, self._rebalancer
        group = change.group
        old_leader = group.leader
        old = group.members[old_id]
        member = old._replace(
            id=member_id,
            rebalance_timeout_ms=join.message.rebalance_timeout_ms,
            session_timeout_ms=join.message.session_timeout_ms,
            protocols=join.protocols,
        )
        change.fence(old_id)
        group.replace(old_id, member)
        rebalancer.renew_session(change, member)
        if group.state is STABLE and group.elect_protocol() == group.protocol:
            group.read_subscriptions()
            change.write()
            if join.caller.api_version < FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT:
                return change.plan(static_rejoin_response(group, member_id, old_leader))
            is_leader = group.leader == member_id
            return change.plan(join_response(group, member_id, skip_assignment=is_leader))
        join.park(member_id)
        rebalancer.begin_or_complete(change, join.reason(f"{old_id} rejoins as {member_id}"))
        return change.plan()

    # With a member id

    def _join_with_id(self, join: Join) -> Plan[JoinGroupResponse]:
        message, group = join.message, join.change.group
        member_id = message.member_id
        if group.state is DEAD:
            return join.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
        if not group.supports(message.protocol_type, join.protocol_names):
            return join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if member_id in group.pending:
            if message.group_instance_id is not None:
                return join.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            return self._add(join, member_id)
        try:
            member = group.check_member(member_id, message.group_instance_id)
        except KafkaError as error:
            return join.refuse(error.code, member_id)
        is_same = member.protocols == join.protocols
        if group.state is COMPLETING and is_same:
            return Plan(join_response(group, member_id))  # its first response may be lost
        if group.state is STABLE and is_same and group.leader != member_id:
            return Plan(join_response(group, member_id))
        return self._update(join, member)

    def _update(self, join: Join, member: ClassicMember) -> Plan[JoinGroupResponse]:
        """Rebalance because a member changed, or because the leader rejoined: its topics did."""
        message, change = join.message, join.change
        change.group.update(
            member._replace(
                rebalance_timeout_ms=message.rebalance_timeout_ms,
                session_timeout_ms=message.session_timeout_ms,
                protocols=join.protocols,
            )
        )
        join.park(member.id)
        self._rebalancer.begin_or_complete(change, join.reason(f"{member.id} rejoins"))
        return change.plan()
