"""DescribeProducersRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class TopicRequest(Message):
    name: str = field("string", "0+", default="")
    partition_indexes: list[int] = field("[]int32", "0+", default_factory=list)


class DescribeProducersRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=61)

    topics: list[TopicRequest] = field("[]struct", "0+", default_factory=list, of=TopicRequest)
