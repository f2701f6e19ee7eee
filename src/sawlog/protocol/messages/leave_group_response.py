"""LeaveGroupResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class MemberResponse(Message):
    member_id: str = field("string", "3+", default="")
    group_instance_id: str | None = field("string", "3+", default="", nullable="3+")
    error_code: int = field("int16", "3+", default=0)


class LeaveGroupResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-5", "4+", api_key=13)

    throttle_time_ms: int = field("int32", "1+", default=0, ignorable=True)
    error_code: int = field("int16", "0+", default=0)
    members: list[MemberResponse] = field("[]struct", "3+", default_factory=list, of=MemberResponse)
