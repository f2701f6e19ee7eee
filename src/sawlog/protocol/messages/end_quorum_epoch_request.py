"""EndQuorumEpochRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class ReplicaInfo(Message):
    candidate_id: int = field("int32", "1+", default=0)
    candidate_directory_id: bytes = field("uuid", "1+", default=NO_UUID)


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    preferred_successors: list[int] = field("[]int32", "0", default_factory=list, ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field(
        "[]struct", "1+", default_factory=list, of=ReplicaInfo, ignorable=True
    )


class TopicData(Message):
    topic_name: str = field("string", "0+", default="")
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class LeaderEndpoint(Message):
    name: str = field("string", "1+", default="")
    host: str = field("string", "1+", default="")
    port: int = field("uint16", "1+", default=0)


class EndQuorumEpochRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "1+", api_key=54)

    cluster_id: str | None = field("string", "0+", default=None, nullable="0+")
    topics: list[TopicData] = field("[]struct", "0+", default_factory=list, of=TopicData)
    leader_endpoints: list[LeaderEndpoint] = field(
        "[]struct", "1+", default_factory=list, of=LeaderEndpoint, ignorable=True
    )
