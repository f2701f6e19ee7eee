"""ShareFetchResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Records, Schema, field


class LeaderIdAndEpoch(Message):
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)


class AcquiredRecords(Message):
    first_offset: int = field("int64", "0+", default=0)
    last_offset: int = field("int64", "0+", default=0)
    delivery_count: int = field("int16", "0+", default=0)


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    acknowledge_error_code: int = field("int16", "0+", default=0)
    acknowledge_error_message: str | None = field("string", "0+", default=None, nullable="0+")
    current_leader: LeaderIdAndEpoch = field(
        "struct", "0+", default_factory=LeaderIdAndEpoch, of=LeaderIdAndEpoch
    )
    records: Records = field("records", "0+", default=None, nullable="0")
    acquired_records: list[AcquiredRecords] = field(
        "[]struct", "0+", default_factory=list, of=AcquiredRecords
    )


class ShareFetchableTopicResponse(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class NodeEndpoint(Message):
    node_id: int = field("int32", "0+", default=0)
    host: str = field("string", "0+", default="")
    port: int = field("int32", "0+", default=0)
    rack: str | None = field("string", "0+", default=None, nullable="0+")


class ShareFetchResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-2", "0+", api_key=78)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    acquisition_lock_timeout_ms: int = field("int32", "1+", default=0)
    responses: list[ShareFetchableTopicResponse] = field(
        "[]struct", "0+", default_factory=list, of=ShareFetchableTopicResponse
    )
    node_endpoints: list[NodeEndpoint] = field(
        "[]struct", "0+", default_factory=list, of=NodeEndpoint
    )
