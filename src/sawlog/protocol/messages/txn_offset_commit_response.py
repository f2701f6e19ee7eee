"""TxnOffsetCommitResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class TxnOffsetCommitResponsePartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


class TxnOffsetCommitResponseTopic(Message):
    name: str = field("string", "0+", default="")
    partitions: list[TxnOffsetCommitResponsePartition] = field(
        "[]struct", "0+", default_factory=list, of=TxnOffsetCommitResponsePartition
    )


class TxnOffsetCommitResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-5", "3+", api_key=28)

    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[TxnOffsetCommitResponseTopic] = field(
        "[]struct", "0+", default_factory=list, of=TxnOffsetCommitResponseTopic
    )
