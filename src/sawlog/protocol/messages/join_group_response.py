"""JoinGroupResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class JoinGroupResponseMember(Message):
    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field(
        "string", "5+", default=None, nullable="5+", ignorable=True
    )
    metadata: bytes = field("bytes", "0+", default=b"")


class JoinGroupResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-9", "6+", api_key=11)

    throttle_time_ms: int = field("int32", "2+", default=0, ignorable=True)
    error_code: int = field("int16", "0+", default=0)
    generation_id: int = field("int32", "0+", default=-1)
    protocol_type: str | None = field("string", "7+", default=None, nullable="7+", ignorable=True)
    protocol_name: str | None = field("string", "0+", default="", nullable="7+")
    leader: str = field("string", "0+", default="")
    skip_assignment: bool = field("bool", "9+", default=False)
    member_id: str = field("string", "0+", default="")
    members: list[JoinGroupResponseMember] = field(
        "[]struct", "0+", default_factory=list, of=JoinGroupResponseMember
    )
