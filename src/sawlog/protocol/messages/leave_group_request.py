"""LeaveGroupRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class MemberIdentity(Message):
    member_id: str = field("string", "3+", default="")
    group_instance_id: str | None = field("string", "3+", default=None, nullable="3+")
    reason: str | None = field("string", "5+", default=None, nullable="5+", ignorable=True)


class LeaveGroupRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-5", "4+", api_key=13)

    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0-2", default="")
    members: list[MemberIdentity] = field("[]struct", "3+", default_factory=list, of=MemberIdentity)
