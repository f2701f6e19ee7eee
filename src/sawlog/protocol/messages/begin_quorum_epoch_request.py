"""BeginQuorumEpochRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)
    voter_directory_id: bytes = field("uuid", "1+", default=NO_UUID, ignorable=True)
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)


class TopicData(Message):
    topic_name: str = field("string", "0+", default="")
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class LeaderEndpoint(Message):
    name: str = field("string", "1+", default="")
    host: str = field("string", "1+", default="")
    port: int = field("uint16", "1+", default=0)


class BeginQuorumEpochRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "1+", api_key=53)

    cluster_id: str | None = field("string", "0+", default=None, nullable="0+")
    voter_id: int = field("int32", "1+", default=-1, ignorable=True)
    topics: list[TopicData] = field("[]struct", "0+", default_factory=list, of=TopicData)
    leader_endpoints: list[LeaderEndpoint] = field(
        "[]struct", "1+", default_factory=list, of=LeaderEndpoint, ignorable=True
    )
