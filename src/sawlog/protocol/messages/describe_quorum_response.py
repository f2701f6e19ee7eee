"""DescribeQuorumResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class ReplicaState(Message):
    replica_id: int = field("int32", "0+", default=0)
    replica_directory_id: bytes = field("uuid", "2+", default=NO_UUID)
    log_end_offset: int = field("int64", "0+", default=0)
    last_fetch_timestamp: int = field("int64", "1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = field("int64", "1+", default=-1, ignorable=True)


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "2+", default="", nullable="2+", ignorable=True)
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    high_watermark: int = field("int64", "0+", default=0)
    current_voters: list[ReplicaState] = field(
        "[]struct", "0+", default_factory=list, of=ReplicaState
    )
    observers: list[ReplicaState] = field("[]struct", "0+", default_factory=list, of=ReplicaState)


class TopicData(Message):
    topic_name: str = field("string", "0+", default="")
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class Listener(Message):
    name: str = field("string", "2+", default="")
    host: str = field("string", "2+", default="")
    port: int = field("uint16", "2+", default=0)


class Node(Message):
    node_id: int = field("int32", "2+", default=0)
    listeners: list[Listener] = field("[]struct", "2+", default_factory=list, of=Listener)


class DescribeQuorumResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-2", "0+", api_key=55)

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "2+", default="", nullable="2+", ignorable=True)
    topics: list[TopicData] = field("[]struct", "0+", default_factory=list, of=TopicData)
    nodes: list[Node] = field("[]struct", "2+", default_factory=list, of=Node)
