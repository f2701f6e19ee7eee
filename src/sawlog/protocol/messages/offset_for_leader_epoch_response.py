"""OffsetForLeaderEpochResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class EpochEndOffset(Message):
    error_code: int = field("int16", "0+", default=0)
    partition: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "1+", default=-1, ignorable=True)
    end_offset: int = field("int64", "0+", default=-1)


class OffsetForLeaderTopicResult(Message):
    topic: str = field("string", "0+", default="")
    partitions: list[EpochEndOffset] = field(
        "[]struct", "0+", default_factory=list, of=EpochEndOffset
    )


class OffsetForLeaderEpochResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "2-4", "4+", api_key=23)

    throttle_time_ms: int = field("int32", "2+", default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field(
        "[]struct", "0+", default_factory=list, of=OffsetForLeaderTopicResult
    )
