"""MetadataRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class MetadataRequestTopic(Message):
    topic_id: bytes = field("uuid", "10+", default=NO_UUID, ignorable=True)
    name: str | None = field("string", "0+", default="", nullable="10+")


class MetadataRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-13", "9+", api_key=3)

    topics: list[MetadataRequestTopic] | None = field(
        "[]struct", "0+", default_factory=list, of=MetadataRequestTopic, nullable="1+"
    )
    allow_auto_topic_creation: bool = field("bool", "4+", default=True)
    include_cluster_authorized_operations: bool = field("bool", "8-10", default=False)
    include_topic_authorized_operations: bool = field("bool", "8+", default=False)
