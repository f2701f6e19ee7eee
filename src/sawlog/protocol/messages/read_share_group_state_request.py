"""ReadShareGroupStateRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class PartitionData(Message):
    partition: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)


class ReadStateData(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class ReadShareGroupStateRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=84)

    group_id: str = field("string", "0+", default="")
    topics: list[ReadStateData] = field("[]struct", "0+", default_factory=list, of=ReadStateData)
