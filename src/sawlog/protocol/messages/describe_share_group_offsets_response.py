"""DescribeShareGroupOffsetsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class DescribeShareGroupOffsetsResponsePartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    lag: int = field("int64", "1+", default=-1, ignorable=True)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


class DescribeShareGroupOffsetsResponseTopic(Message):
    topic_name: str = field("string", "0+", default="")
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(
        "[]struct", "0+", default_factory=list, of=DescribeShareGroupOffsetsResponsePartition
    )


class DescribeShareGroupOffsetsResponseGroup(Message):
    group_id: str = field("string", "0+", default="")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(
        "[]struct", "0+", default_factory=list, of=DescribeShareGroupOffsetsResponseTopic
    )
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


class DescribeShareGroupOffsetsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-1", "0+", api_key=90)

    throttle_time_ms: int = field("int32", "0+", default=0)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(
        "[]struct", "0+", default_factory=list, of=DescribeShareGroupOffsetsResponseGroup
    )
