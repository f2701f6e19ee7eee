"""Putting members out of a group from outside, as LeaveGroup allows to who knows their names."""

from collections.abc import Iterable
from typing import NamedTuple

from sawlog.client.errors import refusal
from sawlog.client.net.connection import Connection
from sawlog.client.net.coordinator_requests import (
    Coordinators,
    Told,
    group_refusal,
    require_version,
)
from sawlog.client.net.metadata import Node
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from sawlog.protocol.messages.leave_group_response import LeaveGroupResponse

_FIRST_VERSION_WITH_MEMBERS = 3
_TEXTS = {
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has no {}; see who is there",
    ErrorCode.FENCED_INSTANCE_ID: "another member has taken the place of {}",
}


class Leaver(NamedTuple):
    """Who is to go: a member by its id, or whoever holds a place (group.instance.id; KIP-345)."""

    member_id: str = ""
    instance_id: str | None = None

    def __str__(self) -> str:
        return f"member {self.member_id!r}" if self.member_id else f"instance {self.instance_id!r}"


LeaverRefusals = dict[Leaver, KafkaError]


def remove_members(
    coordinators: Coordinators, group: str, leavers: Iterable[Leaver], reason: str
) -> LeaverRefusals:
    """Puts members out; who was not, and why. KafkaError where the whole was refused.

    It is not tried twice where an answer was lost: who left is not there to leave again.
    """
    wanted = list(dict.fromkeys(leavers))
    request = LeaveGroupRequest(
        group_id=group,
        members=[MemberIdentity(each.member_id, each.instance_id, reason) for each in wanted],
    )

    def ask(connection: Connection, _: Node, __: list[str]) -> Told[LeaverRefusals]:
        require_version(connection, ApiKey.LEAVE_GROUP, _FIRST_VERSION_WITH_MEMBERS)
        answer = connection.request(request, LeaveGroupResponse)
        if answer.error_code:
            yield group, group_refusal(group, answer.error_code, None)
            return
        yield (
            group,
            {
                leaver: _refusal(leaver, told.error_code)
                for leaver, told in zip(wanted, answer.members, strict=True)
                if told.error_code
            },
        )

    found, refused = coordinators.ask([group], ask, repeatable=False)
    if group in refused:
        raise refused[group]
    return found[group]


def _refusal(leaver: Leaver, error_code: int) -> KafkaError:
    refused = refusal(error_code, None)
    text = _TEXTS.get(refused.code)
    return refused if text is None else KafkaError(refused.code, text.format(leaver))
