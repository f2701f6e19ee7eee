"""AlterPartitionReassignmentsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ReassignablePartitionResponse(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")


class ReassignableTopicResponse(Message):
    name: str = field("string", "0+", default="")
    partitions: list[ReassignablePartitionResponse] = field(
        "[]struct", "0+", default_factory=list, of=ReassignablePartitionResponse
    )


class AlterPartitionReassignmentsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-1", "0+", api_key=45)

    throttle_time_ms: int = field("int32", "0+", default=0)
    allow_replication_factor_change: bool = field("bool", "1+", default=True, ignorable=True)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    responses: list[ReassignableTopicResponse] = field(
        "[]struct", "0+", default_factory=list, of=ReassignableTopicResponse
    )
