"""ConsumerGroupHeartbeatResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class TopicPartitions(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class Assignment(Message):
    topic_partitions: list[TopicPartitions] = field(
        "[]struct", "0+", default_factory=list, of=TopicPartitions
    )


class ConsumerGroupHeartbeatResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-1", "0+", api_key=68)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    member_id: str | None = field("string", "0+", default=None, nullable="0+")
    member_epoch: int = field("int32", "0+", default=0)
    heartbeat_interval_ms: int = field("int32", "0+", default=0)
    assignment: Assignment | None = field(
        "struct", "0+", default=None, of=Assignment, nullable="0+"
    )
