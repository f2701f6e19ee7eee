"""The classic protocol of one shard: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and what is
read back after a restart."""

from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_responses import join_error, sync_error, tell
from sawlog.groups.classic.classic_states import Event
from sawlog.groups.classic.group_change import (
    REBALANCE_IN_PROGRESS,
    join_key,
    session_key,
    sync_key,
)
from sawlog.groups.classic.group_metadata_record import group_of
from sawlog.groups.classic.join_group import Joining
from sawlog.groups.classic.leave_group import Leaving
from sawlog.groups.classic.sync_group import Syncing
from sawlog.groups.consumer.consumer_group import ConsumerGroup

if TYPE_CHECKING:
    from sawlog.coordinator.plan import Plan
    from sawlog.groups.classic.classic_group import Respond
    from sawlog.groups.classic.rebalance import Rebalancing
    from sawlog.groups.context import Caller, GroupContext
    from sawlog.groups.group import Group
    from sawlog.groups.migration.classic_members import ClassicMembers
    from sawlog.protocol.messages.group_metadata_key import GroupMetadataKey
    from sawlog.protocol.messages.group_metadata_value import GroupMetadataValue
    from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
    from sawlog.protocol.messages.join_group_request import JoinGroupRequest
    from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest
    from sawlog.protocol.messages.sync_group_request import SyncGroupRequest


class ClassicMembership:
    """A parked request is answered by its `respond`, once; what cannot be parked is refused by a
    KafkaError or answered by the plan's reply."""

    def __init__(
        self,
        context: "GroupContext",
        groups: "dict[str, Group]",
        rebalancing: "Rebalancing",
        classic_members: "ClassicMembers",
    ) -> None:
        """`classic_members` serves groups of the consumer protocol that have classic members."""
        self._context = context
        self._groups = groups
        self._rebalancing = rebalancing
        self._classic_members = classic_members
        self._joining = Joining(context, groups, rebalancing)
        self._syncing = Syncing(context, rebalancing)
        self._leaving = Leaving(rebalancing)

    # Requests

    def join(self, caller: "Caller", message: "JoinGroupRequest", respond: "Respond") -> "Plan":
        group = self._groups.get(message.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._classic_members.join(caller, group, message, respond)
        return self._joining.join(caller, message, respond)

    def sync(self, _: "Caller", message: "SyncGroupRequest", respond: "Respond") -> "Plan":
        group = self._group(message.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.sync(group, message)
        return self._syncing.sync(group, message, respond)

    def heartbeat(self, _: "Caller", message: "HeartbeatRequest") -> "Plan":
        group = self._group(message.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.heartbeat(group, message)
        return self._syncing.heartbeat(group, message)

    def leave(self, _: "Caller", message: "LeaveGroupRequest") -> "Plan":
        group = self._group(message.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.leave(group, message)
        return self._leaving.leave(group, message)

    def _group(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup | ConsumerGroup):
            return group
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    # What the log says

    def replay(self, key: "GroupMetadataKey", value: "GroupMetadataValue | None") -> None:
        groups = self._groups
        known = groups.get(key.group)
        if value is not None:
            groups[key.group] = group_of(key.group, value)
        elif isinstance(known, ClassicGroup):
            self._release(known, REBALANCE_IN_PROGRESS)
            del groups[key.group]

    def activate(self) -> None:
        """Sessions begin anew: members go on as if nothing had been. A group with more of them than
        are allowed now rebalances, so that they can commit before some have to go."""
        limit: int = self._context.config["group.max.size"]
        for group in tuple(self._groups.values()):
            if isinstance(group, ClassicGroup) and group.members:
                change = self._rebalancing.change(group)
                for member in group.members.values():
                    self._rebalancing.renew(change, member)
                if len(group.members) > limit:
                    self._rebalancing.begin(change, f"only {limit} members are allowed now")
                change.plan()

    def deactivate(self, error: KafkaError) -> None:
        now_ms = self._context.clock.now_ms()
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                self._release(group, int(error.code))
                group.move(Event.ENDED, now_ms)

    def _release(self, group: ClassicGroup, code: int) -> None:
        """Nothing is expected of the members any more, and nobody waits."""
        timers = self._context.timers
        timers.cancel(join_key(group.id))
        timers.cancel(sync_key(group.id))
        for member_id in (*group.members, *group.pending):
            timers.cancel(session_key(group.id, member_id))
        joins, group.waiting_joins = group.waiting_joins, {}
        syncs, group.waiting_syncs = group.waiting_syncs, {}
        for member_id, respond in joins.items():
            tell(respond, join_error(code, member_id))
        for respond in syncs.values():
            tell(respond, sync_error(code))
