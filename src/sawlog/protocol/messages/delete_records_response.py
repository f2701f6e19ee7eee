"""DeleteRecordsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DeleteRecordsPartitionResult(Message):
    partition_index: int = field("int32", "0+", default=0)
    low_watermark: int = field("int64", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


class DeleteRecordsTopicResult(Message):
    name: str = field("string", "0+", default="")
    partitions: list[DeleteRecordsPartitionResult] = field(
        "[]struct", "0+", default_factory=list, of=DeleteRecordsPartitionResult
    )


class DeleteRecordsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-2", "2+", api_key=21)

    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[DeleteRecordsTopicResult] = field(
        "[]struct", "0+", default_factory=list, of=DeleteRecordsTopicResult
    )
