"""DescribeTopicPartitionsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class DescribeTopicPartitionsResponsePartition(Message):
    error_code: int = field("int16", "0+", default=0)
    partition_index: int = field("int32", "0+", default=0)
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=-1, ignorable=True)
    replica_nodes: list[int] = field("[]int32", "0+", default_factory=list)
    isr_nodes: list[int] = field("[]int32", "0+", default_factory=list)
    eligible_leader_replicas: list[int] | None = field("[]int32", "0+", default=None, nullable="0+")
    last_known_elr: list[int] | None = field("[]int32", "0+", default=None, nullable="0+")
    offline_replicas: list[int] = field("[]int32", "0+", default_factory=list, ignorable=True)


class DescribeTopicPartitionsResponseTopic(Message):
    error_code: int = field("int16", "0+", default=0)
    name: str | None = field("string", "0+", default="", nullable="0+")
    topic_id: bytes = field("uuid", "0+", default=NO_UUID, ignorable=True)
    is_internal: bool = field("bool", "0+", default=False, ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(
        "[]struct", "0+", default_factory=list, of=DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = field("int32", "0+", default=-2147483648)


class Cursor(Message):
    topic_name: str = field("string", "0+", default="")
    partition_index: int = field("int32", "0+", default=0)


class DescribeTopicPartitionsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=75)

    throttle_time_ms: int = field("int32", "0+", default=0, ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(
        "[]struct", "0+", default_factory=list, of=DescribeTopicPartitionsResponseTopic
    )
    next_cursor: Cursor | None = field("struct", "0+", default=None, of=Cursor, nullable="0+")
