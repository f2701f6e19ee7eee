"""DeleteShareGroupStateResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class PartitionResult(Message):
    partition: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


class DeleteStateResult(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[PartitionResult] = field(
        "[]struct", "0+", default_factory=list, of=PartitionResult
    )


class DeleteShareGroupStateResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=86)

    results: list[DeleteStateResult] = field(
        "[]struct", "0+", default_factory=list, of=DeleteStateResult
    )
