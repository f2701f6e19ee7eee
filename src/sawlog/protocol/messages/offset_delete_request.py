"""OffsetDeleteRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class OffsetDeleteRequestPartition(Message):
    partition_index: int = field("int32", "0+", default=0)


class OffsetDeleteRequestTopic(Message):
    name: str = field("string", "0+", default="")
    partitions: list[OffsetDeleteRequestPartition] = field(
        "[]struct", "0+", default_factory=list, of=OffsetDeleteRequestPartition
    )


class OffsetDeleteRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "none", api_key=47)

    group_id: str = field("string", "0+", default="")
    topics: list[OffsetDeleteRequestTopic] = field(
        "[]struct", "0+", default_factory=list, of=OffsetDeleteRequestTopic
    )
