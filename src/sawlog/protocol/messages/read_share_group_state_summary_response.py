"""ReadShareGroupStateSummaryResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class PartitionResult(Message):
    partition: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    state_epoch: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)
    delivery_complete_count: int = field("int32", "1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[PartitionResult] = field(
        "[]struct", "0+", default_factory=list, of=PartitionResult
    )


class ReadShareGroupStateSummaryResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-1", "0+", api_key=87)

    results: list[ReadStateSummaryResult] = field(
        "[]struct", "0+", default_factory=list, of=ReadStateSummaryResult
    )
