"""OffsetForLeaderEpochRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class OffsetForLeaderPartition(Message):
    partition: int = field("int32", "0+", default=0)
    current_leader_epoch: int = field("int32", "2+", default=-1, ignorable=True)
    leader_epoch: int = field("int32", "0+", default=0)


class OffsetForLeaderTopic(Message):
    topic: str = field("string", "0+", default="")
    partitions: list[OffsetForLeaderPartition] = field(
        "[]struct", "0+", default_factory=list, of=OffsetForLeaderPartition
    )


class OffsetForLeaderEpochRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "2-4", "4+", api_key=23)

    replica_id: int = field("int32", "3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field(
        "[]struct", "0+", default_factory=list, of=OffsetForLeaderTopic
    )
