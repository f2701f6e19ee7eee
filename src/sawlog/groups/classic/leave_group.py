"""LeaveGroup: members leave, or an admin client removes static members by instance id (KIP-345)."""

from typing import TYPE_CHECKING

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.groups.classic.classic_responses import NO_MEMBER, leave_response
from sawlog.groups.classic.classic_states import EMPTY
from sawlog.protocol.messages.leave_group_response import LeaveGroupResponse

if TYPE_CHECKING:
    from sawlog.groups.classic.classic_group import ClassicGroup
    from sawlog.groups.classic.rebalance import Rebalancer
    from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity

logger = EventLogger(__name__)


class LeaveGroup:
    def __init__(self, rebalancer: "Rebalancer") -> None:
        self._rebalancer = rebalancer

    def leave(
        self, group: "ClassicGroup", message: "LeaveGroupRequest"
    ) -> Plan[LeaveGroupResponse]:
        """Remove members, each with a result of its own; the group rebalances once."""
        group.check_alive()
        change = self._rebalancer.change(group)
        group = change.group
        responses = []
        has_left = False
        for identity in message.members:
            try:
                member_id = _leaving_id(group, identity)
            except KafkaError as error:
                responses.append(leave_response(identity, error.code))
                continue
            logger.info("member leaves", group=group.id, member=member_id, reason=identity.reason)
            change.remove(member_id)
            responses.append(leave_response(identity))
            has_left = True
        if has_left and group.state is not EMPTY:
            self._rebalancer.begin_or_complete(change, "members left")
        return change.plan(LeaveGroupResponse(members=responses))


def _leaving_id(group: "ClassicGroup", identity: "MemberIdentity") -> str:
    """The id of the member to remove; an admin client sends the instance id only."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id == NO_MEMBER:
        found = None if instance_id is None else group.static_ids.get(instance_id)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return found
    if member_id not in group.pending:
        group.check_member(member_id, instance_id)
    return member_id
