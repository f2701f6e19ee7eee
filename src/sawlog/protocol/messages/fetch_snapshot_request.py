"""FetchSnapshotRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class SnapshotId(Message):
    end_offset: int = field("int64", "0+", default=0)
    epoch: int = field("int32", "0+", default=0)


class PartitionSnapshot(Message):
    partition: int = field("int32", "0+", default=0)
    current_leader_epoch: int = field("int32", "0+", default=0)
    snapshot_id: SnapshotId = field("struct", "0+", default_factory=SnapshotId, of=SnapshotId)
    position: int = field("int64", "0+", default=0)
    replica_directory_id: bytes = field(
        "uuid", "1+", default=NO_UUID, tag=0, tagged="1+", ignorable=True
    )


class TopicSnapshot(Message):
    name: str = field("string", "0+", default="")
    partitions: list[PartitionSnapshot] = field(
        "[]struct", "0+", default_factory=list, of=PartitionSnapshot
    )


class FetchSnapshotRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "0+", api_key=59)

    cluster_id: str | None = field("string", "0+", default=None, nullable="0+", tag=0, tagged="0+")
    replica_id: int = field("int32", "0+", default=-1)
    max_bytes: int = field("int32", "0+", default=2147483647)
    topics: list[TopicSnapshot] = field("[]struct", "0+", default_factory=list, of=TopicSnapshot)
