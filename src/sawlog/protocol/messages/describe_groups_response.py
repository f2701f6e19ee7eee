"""DescribeGroupsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DescribedGroupMember(Message):
    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field(
        "string", "4+", default=None, nullable="4+", ignorable=True
    )
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    member_metadata: bytes = field("bytes", "0+", default=b"")
    member_assignment: bytes = field("bytes", "0+", default=b"")


class DescribedGroup(Message):
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "6+", default=None, nullable="6+")
    group_id: str = field("string", "0+", default="")
    group_state: str = field("string", "0+", default="")
    protocol_type: str = field("string", "0+", default="")
    protocol_data: str = field("string", "0+", default="")
    members: list[DescribedGroupMember] = field(
        "[]struct", "0+", default_factory=list, of=DescribedGroupMember
    )
    authorized_operations: int = field("int32", "3+", default=-2147483648)


class DescribeGroupsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-6", "5+", api_key=15)

    throttle_time_ms: int = field("int32", "1+", default=0, ignorable=True)
    groups: list[DescribedGroup] = field("[]struct", "0+", default_factory=list, of=DescribedGroup)
