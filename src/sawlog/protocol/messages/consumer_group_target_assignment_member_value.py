"""ConsumerGroupTargetAssignmentMemberValue: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class TopicPartition(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class ConsumerGroupTargetAssignmentMemberValue(Message):
    SCHEMA: ClassVar[Schema] = Schema("coordinator-value", "0", "0+", api_key=7)

    topic_partitions: list[TopicPartition] = field(
        "[]struct", "0+", default_factory=list, of=TopicPartition
    )
