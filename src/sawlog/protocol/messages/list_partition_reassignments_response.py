"""ListPartitionReassignmentsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class OngoingPartitionReassignment(Message):
    partition_index: int = field("int32", "0+", default=0)
    replicas: list[int] = field("[]int32", "0+", default_factory=list)
    adding_replicas: list[int] = field("[]int32", "0+", default_factory=list)
    removing_replicas: list[int] = field("[]int32", "0+", default_factory=list)


class OngoingTopicReassignment(Message):
    name: str = field("string", "0+", default="")
    partitions: list[OngoingPartitionReassignment] = field(
        "[]struct", "0+", default_factory=list, of=OngoingPartitionReassignment
    )


class ListPartitionReassignmentsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=46)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    topics: list[OngoingTopicReassignment] = field(
        "[]struct", "0+", default_factory=list, of=OngoingTopicReassignment
    )
