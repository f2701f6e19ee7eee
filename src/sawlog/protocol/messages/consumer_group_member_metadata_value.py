"""ConsumerGroupMemberMetadataValue: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ClassicProtocol(Message):
    name: str = field("string", "0+", default="")
    metadata: bytes = field("bytes", "0+", default=b"")


class ClassicMemberMetadata(Message):
    session_timeout_ms: int = field("int32", "0+", default=0)
    supported_protocols: list[ClassicProtocol] = field(
        "[]struct", "0+", default_factory=list, of=ClassicProtocol
    )


class ConsumerGroupMemberMetadataValue(Message):
    SCHEMA: ClassVar[Schema] = Schema("coordinator-value", "0", "0+", api_key=5)

    instance_id: str | None = field("string", "0+", default="", nullable="0+")
    rack_id: str | None = field("string", "0+", default="", nullable="0+")
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    subscribed_topic_names: list[str] = field("[]string", "0+", default_factory=list)
    subscribed_topic_regex: str | None = field("string", "0+", default="", nullable="0+")
    rebalance_timeout_ms: int = field("int32", "0+", default=-1)
    server_assignor: str | None = field("string", "0+", default="", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = field(
        "struct", "0+", default=None, of=ClassicMemberMetadata, nullable="0+", tag=0, tagged="0+"
    )
