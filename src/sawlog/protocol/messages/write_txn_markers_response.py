"""WriteTxnMarkersResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class WritableTxnMarkerPartitionResult(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


class WritableTxnMarkerTopicResult(Message):
    name: str = field("string", "0+", default="")
    partitions: list[WritableTxnMarkerPartitionResult] = field(
        "[]struct", "0+", default_factory=list, of=WritableTxnMarkerPartitionResult
    )


class WritableTxnMarkerResult(Message):
    producer_id: int = field("int64", "0+", default=0)
    topics: list[WritableTxnMarkerTopicResult] = field(
        "[]struct", "0+", default_factory=list, of=WritableTxnMarkerTopicResult
    )


class WriteTxnMarkersResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-2", "1+", api_key=27)

    markers: list[WritableTxnMarkerResult] = field(
        "[]struct", "0+", default_factory=list, of=WritableTxnMarkerResult
    )
