"""JoinGroup: how one becomes a member of a classic group, or stays one.

A dynamic member is first given an id, to come again with it (KIP-394, from version 4 on), so that a
client which retries is one member and not many. A static member (KIP-345) that comes back without
an id takes the place that it had; a stable group goes on as it was where the protocol stays.
"""

from typing import TYPE_CHECKING

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_member import Member, Protocol
from sawlog.groups.classic.classic_responses import (
    NO_MEMBER,
    join_error,
    joined,
    rejoined_in_old_words,
)
from sawlog.groups.classic.classic_states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from sawlog.groups.classic.group_metadata_record import entry_of
from sawlog.groups.classic.rebalance import NEWCOMER_TIMEOUT_MS

if TYPE_CHECKING:
    from sawlog.groups.classic.classic_group import Respond
    from sawlog.groups.classic.group_change import Change
    from sawlog.groups.classic.rebalance import Rebalancing
    from sawlog.groups.context import Caller, GroupContext
    from sawlog.groups.group import Group
    from sawlog.protocol.messages.join_group_request import JoinGroupRequest

FIRST_VERSION_WITH_REQUIRED_ID = 4
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT = 9
MAX_ID_PREFIX = 8_000
"""An id begins with a name that the client chose; it may not outgrow what a string can hold."""


class Join:
    """One JoinGroup request; `change` is what it does to the group."""

    __slots__ = ("caller", "change", "message", "protocols", "respond")

    def __init__(
        self, caller: "Caller", message: "JoinGroupRequest", respond: "Respond", change: "Change"
    ) -> None:
        self.caller = caller
        self.message = message
        self.respond = respond
        self.change = change
        self.protocols = tuple(Protocol(offer.name, offer.metadata) for offer in message.protocols)

    def refuse(self, code: ErrorCode, member_id: str = NO_MEMBER) -> Plan:
        return self.change.plan(join_error(code, member_id))

    def park(self, member_id: str) -> None:
        self.change.park_join(member_id, self.respond)

    def why(self, what: str) -> str:
        return f"{what}; the client says: {self.message.reason or 'nothing'}"


class Joining:
    def __init__(
        self, context: "GroupContext", groups: "dict[str, Group]", rebalancing: "Rebalancing"
    ) -> None:
        self._context = context
        self._groups = groups
        self._rebalancing = rebalancing

    def join(self, caller: "Caller", message: "JoinGroupRequest", respond: "Respond") -> Plan:
        """To a classic group, to none, or to one of another type that nobody is in."""
        known = self._groups.get(message.group_id)
        if isinstance(known, ClassicGroup):
            change = self._rebalancing.change(known)
        elif message.member_id != NO_MEMBER:
            return Plan(join_error(ErrorCode.UNKNOWN_MEMBER_ID, message.member_id))
        else:
            group = ClassicGroup(message.group_id, self._context.clock.now_ms())
            change = self._rebalancing.change(group)
            if known is not None:
                change.entries += known.tombstones()
            change.entries.append(entry_of(group))
        join = Join(caller, message, respond, change)
        if not self._has_room(change.group, message.member_id):
            return self._turn_away(join)
        if message.member_id == NO_MEMBER:
            return self._join_as_new(join)
        return self._join_again(join)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """While a group gathers, those count who have joined already: if `group.max.size` was
        lowered, the last to come again are those who have to go."""
        if group.state in (EMPTY, DEAD):
            return True
        limit: int = self._context.config["group.max.size"]
        if group.state is PREPARING:
            return member_id in group.waiting_joins or len(group.waiting_joins) < limit
        return member_id in group.members or len(group.members) < limit

    def _turn_away(self, join: Join) -> Plan:
        if join.message.member_id != NO_MEMBER:
            join.change.remove(join.message.member_id)
            self._rebalancing.try_complete(join.change)
        return join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)

    # Without a member id

    def _join_as_new(self, join: Join) -> Plan:
        message, group = join.message, join.change.group
        if group.state is DEAD:
            return join.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not group.supports(message.protocol_type, _names(join)):
            return join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        instance_id = message.group_instance_id
        prefix = join.caller.client_id if instance_id is None else instance_id
        member_id = f"{prefix[:MAX_ID_PREFIX]}-{self._context.new_uuid()}"
        if instance_id is not None:
            old_id = group.statics.get(instance_id)
            if old_id is not None:
                return self._take_place(join, old_id, member_id)
        elif join.caller.api_version >= FIRST_VERSION_WITH_REQUIRED_ID:
            group.pending.add(member_id)
            self._rebalancing.expect(join.change, member_id, message.session_timeout_ms)
            return join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return self._add(join, member_id)

    def _add(self, join: Join, member_id: str) -> Plan:
        message, change = join.message, join.change
        group = change.group
        member = Member(
            member_id,
            message.group_instance_id,
            join.caller.client_id,
            join.caller.host,
            message.rebalance_timeout_ms,
            message.session_timeout_ms,
            join.protocols,
        )
        if group.is_first_rebalance:
            group.has_late_newcomer = True
        group.add(member, message.protocol_type)
        group.newcomers.add(member_id)
        join.park(member_id)
        self._rebalancing.expect(change, member_id, NEWCOMER_TIMEOUT_MS)
        self._rebalancing.begin_or_complete(change, join.why(f"{member_id} joins"))
        return change.plan()

    def _take_place(self, join: Join, old_id: str, member_id: str) -> Plan:
        """A static member is back: whoever still speaks under its old id is fenced."""
        change, rebalancing = join.change, self._rebalancing
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
        rebalancing.renew(change, member)
        if group.state is STABLE and group.elect_protocol() == group.protocol:
            group.read_subscriptions()
            change.write()
            if join.caller.api_version < FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT:
                return change.plan(rejoined_in_old_words(group, member_id, old_leader))
            is_leader = group.leader == member_id
            return change.plan(joined(group, member_id, skip_assignment=is_leader))
        join.park(member_id)
        rebalancing.begin_or_complete(change, join.why(f"{old_id} is {member_id} now"))
        return change.plan()

    # With a member id

    def _join_again(self, join: Join) -> Plan:
        message, group = join.message, join.change.group
        member_id = message.member_id
        if group.state is DEAD:
            return join.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
        if not group.supports(message.protocol_type, _names(join)):
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
            return Plan(joined(group, member_id))  # the answer to its join was lost, maybe
        if group.state is STABLE and is_same and group.leader != member_id:
            return Plan(joined(group, member_id))
        return self._update(join, member)

    def _update(self, join: Join, member: Member) -> Plan:
        """Also where a leader says nothing new: it wants a rebalance, because topics changed."""
        message, change = join.message, join.change
        change.group.update(
            member._replace(
                rebalance_timeout_ms=message.rebalance_timeout_ms,
                session_timeout_ms=message.session_timeout_ms,
                protocols=join.protocols,
            )
        )
        join.park(member.id)
        self._rebalancing.begin_or_complete(change, join.why(f"{member.id} joins again"))
        return change.plan()


def _names(join: Join) -> frozenset[str]:
    return frozenset(protocol.name for protocol in join.protocols)
