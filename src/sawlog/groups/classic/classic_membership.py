"""The requests of the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) and the replay
of its records."""

from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_responses import join_error, respond_safely, sync_error
from sawlog.groups.classic.classic_states import Event
from sawlog.groups.classic.group_change import (
    REBALANCE_IN_PROGRESS,
    join_key,
    session_key,
    sync_key,
)
from sawlog.groups.classic.join_group import JoinGroup
from sawlog.groups.classic.leave_group import LeaveGroup
from sawlog.groups.classic.sync_group import SyncGroup
from sawlog.groups.consumer.consumer_group import ConsumerGroup

if TYPE_CHECKING:
    from sawlog.coordinator.plan import Plan
    from sawlog.groups.classic.classic_group import Respond
    from sawlog.groups.classic.rebalance import Rebalancer
    from sawlog.groups.context import Caller, GroupContext
    from sawlog.groups.group import Group
    from sawlog.groups.migration.classic_members import ClassicMembers
    from sawlog.protocol.messages.group_metadata_key import GroupMetadataKey
    from sawlog.protocol.messages.group_metadata_value import GroupMetadataValue
    from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
    from sawlog.protocol.messages.heartbeat_response import HeartbeatResponse
    from sawlog.protocol.messages.join_group_request import JoinGroupRequest
    from sawlog.protocol.messages.join_group_response import JoinGroupResponse
    from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest
    from sawlog.protocol.messages.leave_group_response import LeaveGroupResponse
    from sawlog.protocol.messages.sync_group_request import SyncGroupRequest
    from sawlog.protocol.messages.sync_group_response import SyncGroupResponse


class ClassicMembership:
    """Routes each request by the type of its group. A parked request is answered once, by its
    `respond`; other requests are answered by the plan's reply or refused by a KafkaError."""

    def __init__(
        self,
        context: "GroupContext",
        groups: "dict[str, Group]",
        rebalancer: "Rebalancer",
        classic_members: "ClassicMembers",
    ) -> None:
        """`classic_members` serves the classic members of consumer groups."""
        self._context = context
        self._groups = groups
        self._rebalancer = rebalancer
        self._classic_members = classic_members
        self._join_group = JoinGroup(context, groups, rebalancer)
        self._sync_group = SyncGroup(context, rebalancer)
        self._leave_group = LeaveGroup(rebalancer)

    # Requests

    def join(
        self, caller: "Caller", message: "JoinGroupRequest", respond: "Respond"
    ) -> "Plan[JoinGroupResponse]":
        group = self._groups.get(message.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._classic_members.join(caller, group, message, respond)
        return self._join_group.join(caller, message, respond)

    def sync(
        self, _: "Caller", message: "SyncGroupRequest", respond: "Respond"
    ) -> "Plan[SyncGroupResponse]":
        group = self._group(message.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.sync(group, message)
        return self._sync_group.sync(group, message, respond)

    def heartbeat(self, _: "Caller", message: "HeartbeatRequest") -> "Plan[HeartbeatResponse]":
        group = self._group(message.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.heartbeat(group, message)
        return self._sync_group.heartbeat(group, message)

    def leave(self, _: "Caller", message: "LeaveGroupRequest") -> "Plan[LeaveGroupResponse]":
        group = self._group(message.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.leave(group, message)
        return self._leave_group.leave(group, message)

    def _group(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup | ConsumerGroup):
            return group
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    # Replay and life cycle

    def replay(self, key: "GroupMetadataKey", value: "GroupMetadataValue | None") -> None:
        known = self._groups.get(key.group)
        if value is not None:
            self._groups[key.group] = ClassicGroup.from_record(key.group, value)
        elif isinstance(known, ClassicGroup):
            self._release(known, REBALANCE_IN_PROGRESS)
            del self._groups[key.group]

    def activate(self) -> None:
        """Start the sessions of all members. A group with more members than are allowed now
        rebalances, so that its members can commit before some of them are removed."""
        limit: int = self._context.config["group.max.size"]
        for group in tuple(self._groups.values()):
            if isinstance(group, ClassicGroup) and group.members:
                change = self._rebalancer.change(group)
                for member in group.members.values():
                    self._rebalancer.renew_session(change, member)
                if len(group.members) > limit:
                    self._rebalancer.begin(change, f"only {limit} members are allowed now")
                change.plan()

    def deactivate(self, error: KafkaError) -> None:
        now_ms = self._context.clock.now_ms()
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                self._release(group, int(error.code))
                group.move(Event.UNLOADED, now_ms)

    def _release(self, group: ClassicGroup, code: int) -> None:
        """Cancel all timers of a group and answer its parked requests with an error."""
        timers = self._context.timers
        timers.cancel(join_key(group.id))
        timers.cancel(sync_key(group.id))
        for member_id in (*group.members, *group.pending):
            timers.cancel(session_key(group.id, member_id))
        joins, syncs = group.take_waiting()
        for member_id, respond in joins.items():
            respond_safely(respond, join_error(code, member_id))
        for respond in syncs.values():
            respond_safely(respond, sync_error(code))
