"""DescribeShareGroupOffsetsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DescribeShareGroupOffsetsRequestTopic(Message):
    topic_name: str = field("string", "0+", default="")
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class DescribeShareGroupOffsetsRequestGroup(Message):
    group_id: str = field("string", "0+", default="")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        "[]struct",
        "0+",
        default_factory=list,
        of=DescribeShareGroupOffsetsRequestTopic,
        nullable="0+",
    )


class DescribeShareGroupOffsetsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "0+", api_key=90)

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(
        "[]struct", "0+", default_factory=list, of=DescribeShareGroupOffsetsRequestGroup
    )
