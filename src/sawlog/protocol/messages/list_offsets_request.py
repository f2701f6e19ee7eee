"""ListOffsetsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ListOffsetsPartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    current_leader_epoch: int = field("int32", "4+", default=-1, ignorable=True)
    timestamp: int = field("int64", "0+", default=0)


class ListOffsetsTopic(Message):
    name: str = field("string", "0+", default="")
    partitions: list[ListOffsetsPartition] = field(
        "[]struct", "0+", default_factory=list, of=ListOffsetsPartition
    )


class ListOffsetsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-11", "6+", api_key=2)

    replica_id: int = field("int32", "0+", default=0)
    isolation_level: int = field("int8", "2+", default=0)
    topics: list[ListOffsetsTopic] = field(
        "[]struct", "0+", default_factory=list, of=ListOffsetsTopic
    )
    timeout_ms: int = field("int32", "10+", default=0, ignorable=True)
