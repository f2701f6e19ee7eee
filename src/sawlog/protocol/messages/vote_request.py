"""VoteRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)
    replica_epoch: int = field("int32", "0+", default=0)
    replica_id: int = field("int32", "0+", default=0)
    replica_directory_id: bytes = field("uuid", "1+", default=NO_UUID, ignorable=True)
    voter_directory_id: bytes = field("uuid", "1+", default=NO_UUID, ignorable=True)
    last_offset_epoch: int = field("int32", "0+", default=0)
    last_offset: int = field("int64", "0+", default=0)
    pre_vote: bool = field("bool", "2+", default=False)


class TopicData(Message):
    topic_name: str = field("string", "0+", default="")
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class VoteRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-2", "0+", api_key=52)

    cluster_id: str | None = field("string", "0+", default=None, nullable="0+")
    voter_id: int = field("int32", "1+", default=-1, ignorable=True)
    topics: list[TopicData] = field("[]struct", "0+", default_factory=list, of=TopicData)
