"""DescribeQuorumRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)


class TopicData(Message):
    topic_name: str = field("string", "0+", default="")
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class DescribeQuorumRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-2", "0+", api_key=55)

    topics: list[TopicData] = field("[]struct", "0+", default_factory=list, of=TopicData)
