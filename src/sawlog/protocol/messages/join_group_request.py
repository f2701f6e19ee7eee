"""JoinGroupRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class JoinGroupRequestProtocol(Message):
    name: str = field("string", "0+", default="")
    metadata: bytes = field("bytes", "0+", default=b"")


class JoinGroupRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-9", "6+", api_key=11)

    group_id: str = field("string", "0+", default="")
    session_timeout_ms: int = field("int32", "0+", default=0)
    rebalance_timeout_ms: int = field("int32", "1+", default=-1, ignorable=True)
    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field("string", "5+", default=None, nullable="5+")
    protocol_type: str = field("string", "0+", default="")
    protocols: list[JoinGroupRequestProtocol] = field(
        "[]struct", "0+", default_factory=list, of=JoinGroupRequestProtocol
    )
    reason: str | None = field("string", "8+", default=None, nullable="8+", ignorable=True)
