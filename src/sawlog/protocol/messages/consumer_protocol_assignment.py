"""ConsumerProtocolAssignment: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class TopicPartition(Message):
    topic: str = field("string", "0+", default="")
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class ConsumerProtocolAssignment(Message):
    SCHEMA: ClassVar[Schema] = Schema("data", "0-3", "none")

    assigned_partitions: list[TopicPartition] = field(
        "[]struct", "0+", default_factory=list, of=TopicPartition
    )
    user_data: bytes | None = field("bytes", "0+", default=None, nullable="0+")
