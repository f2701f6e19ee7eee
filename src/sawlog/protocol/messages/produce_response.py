"""ProduceResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class BatchIndexAndErrorMessage(Message):
    batch_index: int = field("int32", "8+", default=0)
    batch_index_error_message: str | None = field("string", "8+", default=None, nullable="8+")


class LeaderIdAndEpoch(Message):
    leader_id: int = field("int32", "10+", default=-1)
    leader_epoch: int = field("int32", "10+", default=-1)


class PartitionProduceResponse(Message):
    index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    base_offset: int = field("int64", "0+", default=0)
    log_append_time_ms: int = field("int64", "2+", default=-1, ignorable=True)
    log_start_offset: int = field("int64", "5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(
        "[]struct", "8+", default_factory=list, of=BatchIndexAndErrorMessage, ignorable=True
    )
    error_message: str | None = field("string", "8+", default=None, nullable="8+", ignorable=True)
    current_leader: LeaderIdAndEpoch = field(
        "struct", "10+", default_factory=LeaderIdAndEpoch, of=LeaderIdAndEpoch, tag=0, tagged="10+"
    )


class TopicProduceResponse(Message):
    name: str = field("string", "0-12", default="", ignorable=True)
    topic_id: bytes = field("uuid", "13+", default=NO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field(
        "[]struct", "0+", default_factory=list, of=PartitionProduceResponse
    )


class NodeEndpoint(Message):
    node_id: int = field("int32", "10+", default=0)
    host: str = field("string", "10+", default="")
    port: int = field("int32", "10+", default=0)
    rack: str | None = field("string", "10+", default=None, nullable="10+")


class ProduceResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "3-13", "9+", api_key=0)

    responses: list[TopicProduceResponse] = field(
        "[]struct", "0+", default_factory=list, of=TopicProduceResponse
    )
    throttle_time_ms: int = field("int32", "1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(
        "[]struct", "10+", default_factory=list, of=NodeEndpoint, tag=0, tagged="10+"
    )
