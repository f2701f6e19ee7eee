"""EndQuorumEpochResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)


class TopicData(Message):
    topic_name: str = field("string", "0+", default="")
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class NodeEndpoint(Message):
    node_id: int = field("int32", "1+", default=0)
    host: str = field("string", "1+", default="")
    port: int = field("uint16", "1+", default=0)


class EndQuorumEpochResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-1", "1+", api_key=54)

    error_code: int = field("int16", "0+", default=0)
    topics: list[TopicData] = field("[]struct", "0+", default_factory=list, of=TopicData)
    node_endpoints: list[NodeEndpoint] = field(
        "[]struct", "1+", default_factory=list, of=NodeEndpoint, tag=0, tagged="1+"
    )
