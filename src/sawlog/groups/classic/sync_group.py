"""SyncGroup and Heartbeat: a member gets its assignment, and shows that it lives.

The leader's SyncGroup carries the assignments of all. The group is stable as soon as they are
written, and everybody who waits is answered when they are committed.
"""

from functools import partial
from typing import TYPE_CHECKING

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_member import NO_ASSIGNMENT
from sawlog.groups.classic.classic_responses import heard, synced
from sawlog.groups.classic.classic_states import COMPLETING, PREPARING, STABLE, Event
from sawlog.groups.classic.group_change import sync_key

if TYPE_CHECKING:
    from sawlog.groups.classic.classic_group import ClassicGroup, Respond
    from sawlog.groups.classic.classic_member import Member
    from sawlog.groups.classic.group_change import Change
    from sawlog.groups.classic.rebalance import Rebalancing
    from sawlog.groups.context import GroupContext
    from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
    from sawlog.protocol.messages.sync_group_request import SyncGroupRequest


class Syncing:
    def __init__(self, context: "GroupContext", rebalancing: "Rebalancing") -> None:
        self._context = context
        self._rebalancing = rebalancing

    def sync(self, group: "ClassicGroup", message: "SyncGroupRequest", respond: "Respond") -> Plan:
        group.check_alive()
        group.check_member(message.member_id, message.group_instance_id)
        group.check_generation(message.generation_id)
        _check_same(message.protocol_type, group.protocol_type)
        _check_same(message.protocol_name, group.protocol)
        if group.state is PREPARING:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        change = self._rebalancing.change(group)
        group = change.group
        member = group.members[message.member_id]
        group.unsynced.discard(member.id)
        if not group.unsynced:
            change.cancel_timer(sync_key(group.id))
        if group.state is STABLE:
            return change.plan(synced(group, member))
        if group.leader == member.id:
            return self._assign(change, member, message)
        change.park_sync(member.id, respond)
        return change.plan()

    def _assign(self, change: "Change", leader: "Member", message: "SyncGroupRequest") -> Plan:
        """A member that the leader forgot gets nothing; one that is none is not looked at."""
        group = change.group
        given = {one.member_id: one.assignment for one in message.assignments}
        for member in tuple(group.members.values()):
            assignment = given.get(member.id, NO_ASSIGNMENT)
            group.members[member.id] = member._replace(assignment=assignment)
        group.move(Event.ASSIGNED, self._context.clock.now_ms())
        change.write()
        self._rebalancing.renew(change, leader)
        return change.plan(
            synced(group, group.members[leader.id]),
            partial(self._assigned, group.id, group.generation),
        )

    def _assigned(self, group_id: str, generation: int, error: KafkaError | None) -> None:
        """The assignments are committed; or the log did not take them, and all begin anew."""
        group = self._rebalancing.find(group_id)
        if group is None or group.generation != generation:
            return
        change = self._rebalancing.change(group)
        group = change.group
        if group.state is STABLE and error is None:
            for member_id in tuple(group.waiting_syncs):
                member = group.members[member_id]
                change.answer_sync(member_id, synced(group, member))
                self._rebalancing.renew(change, member)
        elif group.state is COMPLETING and error is not None:
            self._rebalancing.answer_syncs(change, int(error.code))
            self._rebalancing.begin(change, f"the assignment cannot be written: {error}")
        change.plan()

    def heartbeat(self, group: "ClassicGroup", message: "HeartbeatRequest") -> Plan:
        group.check_alive()
        member = group.check_member(message.member_id, message.group_instance_id)
        group.check_generation(message.generation_id)
        self._rebalancing.heard_of(group, member)
        return Plan(heard(group))


def _check_same(named: str | None, actual: str | None) -> None:
    """From version 5 on a member says what it believes that it joined (KIP-559)."""
    if named is not None and actual is not None and named != actual:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
