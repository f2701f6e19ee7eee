"""AlterShareGroupOffsetsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class AlterShareGroupOffsetsResponsePartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


class AlterShareGroupOffsetsResponseTopic(Message):
    topic_name: str = field("string", "0+", default="")
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(
        "[]struct", "0+", default_factory=list, of=AlterShareGroupOffsetsResponsePartition
    )


class AlterShareGroupOffsetsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=91)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(
        "[]struct", "0+", default_factory=list, of=AlterShareGroupOffsetsResponseTopic
    )
