"""ConsumerGroupCurrentMemberAssignmentValue: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class TopicPartitions(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[int] = field("[]int32", "0+", default_factory=list)
    assignment_epochs: list[int] | None = field(
        "[]int32", "0+", default=None, nullable="0+", tag=0, tagged="0+"
    )


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    SCHEMA: ClassVar[Schema] = Schema("coordinator-value", "0", "0+", api_key=8)

    member_epoch: int = field("int32", "0+", default=0)
    previous_member_epoch: int = field("int32", "0+", default=0)
    state: int = field("int8", "0+", default=0)
    assigned_partitions: list[TopicPartitions] = field(
        "[]struct", "0+", default_factory=list, of=TopicPartitions
    )
    partitions_pending_revocation: list[TopicPartitions] = field(
        "[]struct", "0+", default_factory=list, of=TopicPartitions
    )
