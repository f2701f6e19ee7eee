"""ElectLeadersRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class TopicPartitions(Message):
    topic: str = field("string", "0+", default="")
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class ElectLeadersRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-2", "2+", api_key=43)

    election_type: int = field("int8", "1+", default=0)
    topic_partitions: list[TopicPartitions] | None = field(
        "[]struct", "0+", default_factory=list, of=TopicPartitions, nullable="0+"
    )
    timeout_ms: int = field("int32", "0+", default=60000)
