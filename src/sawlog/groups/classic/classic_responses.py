"""The responses to members of classic groups.

A response is complete for all versions; the handlers in `broker/api` adapt it to older ones.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sawlog.core.errors import ErrorCode
from sawlog.core.event_logger import EventLogger
from sawlog.groups.classic.classic_states import PREPARING
from sawlog.protocol.messages.heartbeat_response import HeartbeatResponse
from sawlog.protocol.messages.join_group_response import (
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from sawlog.protocol.messages.leave_group_response import MemberResponse
from sawlog.protocol.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from sawlog.groups.classic.classic_group import ClassicGroup
    from sawlog.groups.classic.classic_member import ClassicMember
    from sawlog.protocol.messages.leave_group_request import MemberIdentity

logger = EventLogger(__name__)

NO_MEMBER = ""
"""The member id in the first JoinGroup of a client."""


class RespondOnce:
    """Sends only the first of several responses: the machine answers a parked request, and so does
    the runtime when its log cannot be written."""

    __slots__ = ("_respond",)

    def __init__(self, respond: Callable[[Any], None]) -> None:
        self._respond: Callable[[Any], None] | None = respond

    def __call__(self, response: Any) -> None:
        respond, self._respond = self._respond, None
        if respond is not None:
            respond(response)


def respond_safely(respond: Callable[[Any], None], response: Any) -> None:
    """Send a response; an error is logged, so that the other members get their responses."""
    try:
        respond(response)
    except Exception:
        logger.exception("a parked request cannot be answered")


def join_error(code: int, member_id: str = NO_MEMBER) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=int(code), protocol_name=None, member_id=member_id)


def join_response(
    group: "ClassicGroup", member_id: str, *, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Describe the current generation to a member; the leader also gets the list of members."""
    protocol = group.protocol
    members = []
    if group.leader == member_id:
        members = [
            JoinGroupResponseMember(member.id, member.instance_id, member.metadata(protocol))
            for member in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=protocol,
        leader=group.leader or NO_MEMBER,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def static_rejoin_response(
    group: "ClassicGroup", member_id: str, old_leader: str | None
) -> JoinGroupResponse:
    """Answer a static member that rejoined, in versions without `skip_assignment` (KIP-814).

    The response names the leader by its old id, so that a leader that rejoined does not compute an
    assignment, which the stable group would ignore.
    """
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=old_leader or NO_MEMBER,
        member_id=member_id,
    )


def sync_response(group: "ClassicGroup", member: "ClassicMember") -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )


def sync_error(code: int) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=int(code))


def leave_response(identity: "MemberIdentity", code: int = 0) -> MemberResponse:
    return MemberResponse(identity.member_id, identity.group_instance_id, int(code))


_NO_ERROR = HeartbeatResponse()
_REBALANCING = HeartbeatResponse(error_code=int(ErrorCode.REBALANCE_IN_PROGRESS))


def heartbeat_response(group: "ClassicGroup") -> HeartbeatResponse:
    """Tell a member whether it has to rejoin."""
    return _REBALANCING if group.state is PREPARING else _NO_ERROR
