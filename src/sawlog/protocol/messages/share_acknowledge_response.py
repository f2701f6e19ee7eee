"""ShareAcknowledgeResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class LeaderIdAndEpoch(Message):
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    current_leader: LeaderIdAndEpoch = field(
        "struct", "0+", default_factory=LeaderIdAndEpoch, of=LeaderIdAndEpoch
    )


class ShareAcknowledgeTopicResponse(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class NodeEndpoint(Message):
    node_id: int = field("int32", "0+", default=0)
    host: str = field("string", "0+", default="")
    port: int = field("int32", "0+", default=0)
    rack: str | None = field("string", "0+", default=None, nullable="0+")


class ShareAcknowledgeResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-2", "0+", api_key=79)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    acquisition_lock_timeout_ms: int = field("int32", "2+", default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field(
        "[]struct", "0+", default_factory=list, of=ShareAcknowledgeTopicResponse
    )
    node_endpoints: list[NodeEndpoint] = field(
        "[]struct", "0+", default_factory=list, of=NodeEndpoint
    )
