"""CreatePartitionsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class CreatePartitionsAssignment(Message):
    broker_ids: list[int] = field("[]int32", "0+", default_factory=list)


class CreatePartitionsTopic(Message):
    name: str = field("string", "0+", default="")
    count: int = field("int32", "0+", default=0)
    assignments: list[CreatePartitionsAssignment] | None = field(
        "[]struct", "0+", default_factory=list, of=CreatePartitionsAssignment, nullable="0+"
    )


class CreatePartitionsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-3", "2+", api_key=37)

    topics: list[CreatePartitionsTopic] = field(
        "[]struct", "0+", default_factory=list, of=CreatePartitionsTopic
    )
    timeout_ms: int = field("int32", "0+", default=0)
    validate_only: bool = field("bool", "0+", default=False)
