"""OffsetCommitResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class OffsetCommitResponsePartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


class OffsetCommitResponseTopic(Message):
    name: str = field("string", "0-9", default="", ignorable=True)
    topic_id: bytes = field("uuid", "10+", default=NO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field(
        "[]struct", "0+", default_factory=list, of=OffsetCommitResponsePartition
    )


class OffsetCommitResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "2-10", "8+", api_key=8)

    throttle_time_ms: int = field("int32", "3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(
        "[]struct", "0+", default_factory=list, of=OffsetCommitResponseTopic
    )
