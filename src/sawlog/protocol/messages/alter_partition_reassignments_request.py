"""AlterPartitionReassignmentsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ReassignablePartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    replicas: list[int] | None = field("[]int32", "0+", default=None, nullable="0+")


class ReassignableTopic(Message):
    name: str = field("string", "0+", default="")
    partitions: list[ReassignablePartition] = field(
        "[]struct", "0+", default_factory=list, of=ReassignablePartition
    )


class AlterPartitionReassignmentsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "0+", api_key=45)

    timeout_ms: int = field("int32", "0+", default=60000)
    allow_replication_factor_change: bool = field("bool", "1+", default=True)
    topics: list[ReassignableTopic] = field(
        "[]struct", "0+", default_factory=list, of=ReassignableTopic
    )
