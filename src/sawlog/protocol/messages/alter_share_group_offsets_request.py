"""AlterShareGroupOffsetsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AlterShareGroupOffsetsRequestPartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)


class AlterShareGroupOffsetsRequestTopic(Message):
    topic_name: str = field("string", "0+", default="")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(
        "[]struct", "0+", default_factory=list, of=AlterShareGroupOffsetsRequestPartition
    )


class AlterShareGroupOffsetsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=91)

    group_id: str = field("string", "0+", default="")
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(
        "[]struct", "0+", default_factory=list, of=AlterShareGroupOffsetsRequestTopic
    )
