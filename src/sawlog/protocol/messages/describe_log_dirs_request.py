"""DescribeLogDirsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DescribableLogDirTopic(Message):
    topic: str = field("string", "0+", default="")
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class DescribeLogDirsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-5", "2+", api_key=35)

    topics: list[DescribableLogDirTopic] | None = field(
        "[]struct", "0+", default_factory=list, of=DescribableLogDirTopic, nullable="0+"
    )
