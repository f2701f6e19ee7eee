"""ListPartitionReassignmentsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ListPartitionReassignmentsTopics(Message):
    name: str = field("string", "0+", default="")
    partition_indexes: list[int] = field("[]int32", "0+", default_factory=list)


class ListPartitionReassignmentsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=46)

    timeout_ms: int = field("int32", "0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        "[]struct", "0+", default=None, of=ListPartitionReassignmentsTopics, nullable="0+"
    )
