"""What members of classic groups are answered.

Messages are built whole, for all versions; the handlers fit what a version cannot say.
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
    from sawlog.groups.classic.classic_member import Member
    from sawlog.protocol.messages.leave_group_request import MemberIdentity

logger = EventLogger(__name__)

NO_MEMBER = ""
"""The member id of somebody who has none."""


class Once:
    """Answers a request once: whoever parks it may answer, and so may a log that cannot be written;
    only the first is heard."""

    __slots__ = ("_respond",)

    def __init__(self, respond: Callable[[Any], None]) -> None:
        self._respond: Callable[[Any], None] | None = respond

    def __call__(self, response: Any) -> None:
        respond, self._respond = self._respond, None
        if respond is not None:
            respond(response)


def tell(respond: Callable[[Any], None], response: Any) -> None:
    """One who cannot be told must not keep the others from being told."""
    try:
        respond(response)
    except Exception:
        logger.exception("a waiting member cannot be answered")


def join_error(code: int, member_id: str = NO_MEMBER) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=int(code), protocol_name=None, member_id=member_id)


def joined(
    group: "ClassicGroup", member_id: str, *, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The generation as it is now; the leader is told all members, to assign to them."""
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


def rejoined_in_old_words(
    group: "ClassicGroup", member_id: str, old_leader: str | None
) -> JoinGroupResponse:
    """For a static member that came back, before versions know how to skip the assignment: the
    leader is named by the id that it had, so that it does not take itself for the leader and
    assign anew, which nobody would hear (KIP-814)."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=old_leader or NO_MEMBER,
        member_id=member_id,
    )


def synced(group: "ClassicGroup", member: "Member") -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )


def sync_error(code: int) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=int(code))


def left(identity: "MemberIdentity", code: int = 0) -> MemberResponse:
    return MemberResponse(identity.member_id, identity.group_instance_id, int(code))


_ALIVE = HeartbeatResponse()
_REBALANCING = HeartbeatResponse(error_code=int(ErrorCode.REBALANCE_IN_PROGRESS))


def heard(group: "ClassicGroup") -> HeartbeatResponse:
    """What a member's heartbeat tells it: all is well, or join again."""
    return _REBALANCING if group.state is PREPARING else _ALIVE
