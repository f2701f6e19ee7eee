"""ShareGroupHeartbeatRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ShareGroupHeartbeatRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1", "0+", api_key=76)

    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0+", default="")
    member_epoch: int = field("int32", "0+", default=0)
    rack_id: str | None = field("string", "0+", default=None, nullable="0+")
    subscribed_topic_names: list[str] | None = field("[]string", "0+", default=None, nullable="0+")
