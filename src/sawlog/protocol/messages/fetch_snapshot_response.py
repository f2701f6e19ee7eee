"""FetchSnapshotResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.core.ports import Part
from sawlog.protocol.schema import Message, Schema, field


class SnapshotId(Message):
    end_offset: int = field("int64", "0+", default=0)
    epoch: int = field("int32", "0+", default=0)


class LeaderIdAndEpoch(Message):
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)


class PartitionSnapshot(Message):
    index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    snapshot_id: SnapshotId = field("struct", "0+", default_factory=SnapshotId, of=SnapshotId)
    current_leader: LeaderIdAndEpoch = field(
        "struct", "0+", default_factory=LeaderIdAndEpoch, of=LeaderIdAndEpoch, tag=0, tagged="0+"
    )
    size: int = field("int64", "0+", default=0)
    position: int = field("int64", "0+", default=0)
    unaligned_records: Part = field("records", "0+", default=b"")


class TopicSnapshot(Message):
    name: str = field("string", "0+", default="")
    partitions: list[PartitionSnapshot] = field(
        "[]struct", "0+", default_factory=list, of=PartitionSnapshot
    )


class NodeEndpoint(Message):
    node_id: int = field("int32", "1+", default=0)
    host: str = field("string", "1+", default="")
    port: int = field("uint16", "1+", default=0)


class FetchSnapshotResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-1", "0+", api_key=59)

    throttle_time_ms: int = field("int32", "0+", default=0, ignorable=True)
    error_code: int = field("int16", "0+", default=0)
    topics: list[TopicSnapshot] = field("[]struct", "0+", default_factory=list, of=TopicSnapshot)
    node_endpoints: list[NodeEndpoint] = field(
        "[]struct", "1+", default_factory=list, of=NodeEndpoint, tag=0, tagged="1+"
    )
