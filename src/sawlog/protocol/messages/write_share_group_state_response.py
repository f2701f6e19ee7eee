"""WriteShareGroupStateResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class PartitionResult(Message):
    partition: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


class WriteStateResult(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[PartitionResult] = field(
        "[]struct", "0+", default_factory=list, of=PartitionResult
    )


class WriteShareGroupStateResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-1", "0+", api_key=85)

    results: list[WriteStateResult] = field(
        "[]struct", "0+", default_factory=list, of=WriteStateResult
    )
