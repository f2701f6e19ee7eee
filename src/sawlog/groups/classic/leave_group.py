"""LeaveGroup: members go by themselves, or are put out by an admin who names their instances."""

from typing import TYPE_CHECKING

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.groups.classic.classic_responses import NO_MEMBER, left
from sawlog.groups.classic.classic_states import EMPTY
from sawlog.protocol.messages.leave_group_response import LeaveGroupResponse

if TYPE_CHECKING:
    from sawlog.groups.classic.classic_group import ClassicGroup
    from sawlog.groups.classic.rebalance import Rebalancing
    from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity

logger = EventLogger(__name__)


class Leaving:
    def __init__(self, rebalancing: "Rebalancing") -> None:
        self._rebalancing = rebalancing

    def leave(self, group: "ClassicGroup", message: "LeaveGroupRequest") -> Plan:
        """Each is answered for itself; the group rebalances once."""
        group.check_alive()
        change = self._rebalancing.change(group)
        group = change.group
        answers = []
        has_left = False
        for identity in message.members:
            try:
                member_id = _leaving(group, identity)
            except KafkaError as error:
                answers.append(left(identity, error.code))
                continue
            logger.info("member leaves", group=group.id, member=member_id, reason=identity.reason)
            change.remove(member_id)
            answers.append(left(identity))
            has_left = True
        if has_left and group.state is not EMPTY:
            self._rebalancing.begin_or_complete(change, "members left")
        return change.plan(LeaveGroupResponse(members=answers))


def _leaving(group: "ClassicGroup", identity: "MemberIdentity") -> str:
    """The id of who is meant; an admin knows only the instance (KIP-345)."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id == NO_MEMBER:
        found = None if instance_id is None else group.statics.get(instance_id)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return found
    if member_id not in group.pending:
        group.check_member(member_id, instance_id)
    return member_id
