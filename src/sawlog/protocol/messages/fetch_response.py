"""FetchResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Records, Schema, field


class EpochEndOffset(Message):
    epoch: int = field("int32", "12+", default=-1)
    end_offset: int = field("int64", "12+", default=-1)


class LeaderIdAndEpoch(Message):
    leader_id: int = field("int32", "12+", default=-1)
    leader_epoch: int = field("int32", "12+", default=-1)


class SnapshotId(Message):
    end_offset: int = field("int64", "0+", default=-1)
    epoch: int = field("int32", "0+", default=-1)


class AbortedTransaction(Message):
    producer_id: int = field("int64", "4+", default=0)
    first_offset: int = field("int64", "4+", default=0)


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    high_watermark: int = field("int64", "0+", default=0)
    last_stable_offset: int = field("int64", "4+", default=-1, ignorable=True)
    log_start_offset: int = field("int64", "5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field(
        "struct", "12+", default_factory=EpochEndOffset, of=EpochEndOffset, tag=0, tagged="12+"
    )
    current_leader: LeaderIdAndEpoch = field(
        "struct", "12+", default_factory=LeaderIdAndEpoch, of=LeaderIdAndEpoch, tag=1, tagged="12+"
    )
    snapshot_id: SnapshotId = field(
        "struct", "12+", default_factory=SnapshotId, of=SnapshotId, tag=2, tagged="12+"
    )
    aborted_transactions: list[AbortedTransaction] | None = field(
        "[]struct", "4+", default_factory=list, of=AbortedTransaction, nullable="4+", ignorable=True
    )
    preferred_read_replica: int = field("int32", "11+", default=-1)
    records: Records = field("records", "0+", default=None, nullable="0+")


class FetchableTopicResponse(Message):
    topic: str = field("string", "0-12", default="", ignorable=True)
    topic_id: bytes = field("uuid", "13+", default=NO_UUID, ignorable=True)
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class NodeEndpoint(Message):
    node_id: int = field("int32", "16+", default=0)
    host: str = field("string", "16+", default="")
    port: int = field("int32", "16+", default=0)
    rack: str | None = field("string", "16+", default=None, nullable="16+")


class FetchResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "4-18", "12+", api_key=1)

    throttle_time_ms: int = field("int32", "1+", default=0, ignorable=True)
    error_code: int = field("int16", "7+", default=0, ignorable=True)
    session_id: int = field("int32", "7+", default=0)
    responses: list[FetchableTopicResponse] = field(
        "[]struct", "0+", default_factory=list, of=FetchableTopicResponse
    )
    node_endpoints: list[NodeEndpoint] = field(
        "[]struct", "16+", default_factory=list, of=NodeEndpoint, tag=0, tagged="16+"
    )
