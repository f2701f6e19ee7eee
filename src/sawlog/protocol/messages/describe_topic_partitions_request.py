"""DescribeTopicPartitionsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class TopicRequest(Message):
    name: str = field("string", "0+", default="")


class Cursor(Message):
    topic_name: str = field("string", "0+", default="")
    partition_index: int = field("int32", "0+", default=0)


class DescribeTopicPartitionsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=75)

    topics: list[TopicRequest] = field("[]struct", "0+", default_factory=list, of=TopicRequest)
    response_partition_limit: int = field("int32", "0+", default=2000)
    cursor: Cursor | None = field("struct", "0+", default=None, of=Cursor, nullable="0+")
