"""SyncGroup and Heartbeat: a member gets its assignment and keeps its session alive.

The leader's SyncGroup carries the assignments of all members. The group is stable as soon as they
are written; the parked SyncGroup requests are answered when they are committed.
"""

from functools import partial
from typing import TYPE_CHECKING

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_responses import heartbeat_response, sync_response
from sawlog.groups.classic.classic_states import COMPLETING, PREPARING, STABLE, Event
from sawlog.groups.classic.group_change import sync_key
from sawlog.protocol.messages.heartbeat_response import HeartbeatResponse
from sawlog.protocol.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from sawlog.groups.classic.classic_group import ClassicGroup, Respond
    from sawlog.groups.classic.classic_member import ClassicMember
    from sawlog.groups.classic.group_change import GroupChange
    from sawlog.groups.classic.rebalance import Rebalancer
    from sawlog.groups.context import GroupContext
    from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
    from sawlog.protocol.messages.sync_group_request import SyncGroupRequest


class SyncGroup:
    def __init__(self, context: "GroupContext", rebalancer: "Rebalancer") -> None:
        self._context = context
        self._rebalancer = rebalancer

    def sync(
        self, group: "ClassicGroup", message: "SyncGroupRequest", respond: "Respond"
    ) -> Plan[SyncGroupResponse]:
        group.check_alive()
        group.check_member(message.member_id, message.group_instance_id)
        group.check_generation(message.generation_id)
        _check_same(message.protocol_type, group.protocol_type)
        _check_same(message.protocol_name, group.protocol)
        if group.state is PREPARING:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        change = self._rebalancer.change(group)
        group = change.group
        member = group.members[message.member_id]
        group.mark_synced(member.id)
        if not group.unsynced:
            change.cancel_timer(sync_key(group.id))
        if group.state is STABLE:
            return change.plan(sync_response(group, member))
        if group.leader == member.id:
            return self._assign(change, member, message)
        change.park_sync(member.id, respond)
        return change.plan()

    def _assign(
        self, change: "GroupChange", leader: "ClassicMember", message: "SyncGroupRequest"
    ) -> Plan[SyncGroupResponse]:
        """Take the leader's assignments; those of unknown members are ignored."""
        group = change.group
        group.assign({one.member_id: one.assignment for one in message.assignments})
        group.move(Event.ASSIGNED, self._context.clock.now_ms())
        change.write()
        self._rebalancer.renew_session(change, leader)
        return change.plan(
            sync_response(group, group.members[leader.id]),
            partial(self._assignment_committed, group.id, group.generation),
        )

    def _assignment_committed(
        self, group_id: str, generation: int, error: KafkaError | None
    ) -> None:
        """Answer the parked requests; if the log refused the assignments, rebalance."""
        group = self._rebalancer.find(group_id)
        if group is None or group.generation != generation:
            return
        change = self._rebalancer.change(group)
        group = change.group
        if group.state is STABLE and error is None:
            for member_id in tuple(group.waiting_syncs):
                member = group.members[member_id]
                change.answer_sync(member_id, sync_response(group, member))
                self._rebalancer.renew_session(change, member)
        elif group.state is COMPLETING and error is not None:
            self._rebalancer.answer_syncs(change, int(error.code))
            self._rebalancer.begin(change, f"the assignment cannot be written: {error}")
        change.plan()

    def heartbeat(
        self, group: "ClassicGroup", message: "HeartbeatRequest"
    ) -> Plan[HeartbeatResponse]:
        group.check_alive()
        member = group.check_member(message.member_id, message.group_instance_id)
        group.check_generation(message.generation_id)
        self._rebalancer.renew_session_now(group, member)
        return Plan(heartbeat_response(group))


def _check_same(sent: str | None, actual: str | None) -> None:
    """From version 5 on a member sends the protocol that it believes to have joined (KIP-559)."""
    if sent is not None and actual is not None and sent != actual:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
