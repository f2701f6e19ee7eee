"""HeartbeatRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class HeartbeatRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-4", "4+", api_key=12)

    group_id: str = field("string", "0+", default="")
    generation_id: int = field("int32", "0+", default=0)
    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field("string", "3+", default=None, nullable="3+")
