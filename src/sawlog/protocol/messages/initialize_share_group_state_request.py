"""InitializeShareGroupStateRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class PartitionData(Message):
    partition: int = field("int32", "0+", default=0)
    state_epoch: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)


class InitializeStateData(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class InitializeShareGroupStateRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=83)

    group_id: str = field("string", "0+", default="")
    topics: list[InitializeStateData] = field(
        "[]struct", "0+", default_factory=list, of=InitializeStateData
    )
