"""SyncGroupRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class SyncGroupRequestAssignment(Message):
    member_id: str = field("string", "0+", default="")
    assignment: bytes = field("bytes", "0+", default=b"")


class SyncGroupRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-5", "4+", api_key=14)

    group_id: str = field("string", "0+", default="")
    generation_id: int = field("int32", "0+", default=0)
    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field("string", "3+", default=None, nullable="3+")
    protocol_type: str | None = field("string", "5+", default=None, nullable="5+", ignorable=True)
    protocol_name: str | None = field("string", "5+", default=None, nullable="5+", ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(
        "[]struct", "0+", default_factory=list, of=SyncGroupRequestAssignment
    )
