"""OffsetDeleteResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class OffsetDeleteResponsePartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


class OffsetDeleteResponseTopic(Message):
    name: str = field("string", "0+", default="")
    partitions: list[OffsetDeleteResponsePartition] = field(
        "[]struct", "0+", default_factory=list, of=OffsetDeleteResponsePartition
    )


class OffsetDeleteResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "none", api_key=47)

    error_code: int = field("int16", "0+", default=0)
    throttle_time_ms: int = field("int32", "0+", default=0, ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = field(
        "[]struct", "0+", default_factory=list, of=OffsetDeleteResponseTopic
    )
