"""ReadShareGroupStateResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class StateBatch(Message):
    first_offset: int = field("int64", "0+", default=0)
    last_offset: int = field("int64", "0+", default=0)
    delivery_state: int = field("int8", "0+", default=0)
    delivery_count: int = field("int16", "0+", default=0)


class PartitionResult(Message):
    partition: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    state_epoch: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)
    state_batches: list[StateBatch] = field("[]struct", "0+", default_factory=list, of=StateBatch)


class ReadStateResult(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[PartitionResult] = field(
        "[]struct", "0+", default_factory=list, of=PartitionResult
    )


class ReadShareGroupStateResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=84)

    results: list[ReadStateResult] = field(
        "[]struct", "0+", default_factory=list, of=ReadStateResult
    )
