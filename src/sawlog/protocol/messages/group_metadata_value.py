"""GroupMetadataValue: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class MemberMetadata(Message):
    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field(
        "string", "3+", default=None, nullable="3+", ignorable=True
    )
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    rebalance_timeout: int = field("int32", "1+", default=-1, ignorable=True)
    session_timeout: int = field("int32", "0+", default=0)
    subscription: bytes = field("bytes", "0+", default=b"")
    assignment: bytes = field("bytes", "0+", default=b"")


class GroupMetadataValue(Message):
    SCHEMA: ClassVar[Schema] = Schema("coordinator-value", "0-4", "4+", api_key=2)

    protocol_type: str = field("string", "0+", default="")
    generation: int = field("int32", "0+", default=0)
    protocol: str | None = field("string", "0+", default="", nullable="0+")
    leader: str | None = field("string", "0+", default="", nullable="0+")
    current_state_timestamp: int = field("int64", "2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = field("[]struct", "0+", default_factory=list, of=MemberMetadata)
