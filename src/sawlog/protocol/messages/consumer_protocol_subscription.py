"""ConsumerProtocolSubscription: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class TopicPartition(Message):
    topic: str = field("string", "1+", default="")
    partitions: list[int] = field("[]int32", "1+", default_factory=list)


class ConsumerProtocolSubscription(Message):
    SCHEMA: ClassVar[Schema] = Schema("data", "0-3", "none")

    topics: list[str] = field("[]string", "0+", default_factory=list)
    user_data: bytes | None = field("bytes", "0+", default=None, nullable="0+")
    owned_partitions: list[TopicPartition] = field(
        "[]struct", "1+", default_factory=list, of=TopicPartition, ignorable=True
    )
    generation_id: int = field("int32", "2+", default=-1, ignorable=True)
    rack_id: str | None = field("string", "3+", default=None, nullable="3+", ignorable=True)
