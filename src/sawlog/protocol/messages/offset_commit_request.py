"""OffsetCommitRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class OffsetCommitRequestPartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    committed_offset: int = field("int64", "0+", default=0)
    committed_leader_epoch: int = field("int32", "6+", default=-1, ignorable=True)
    committed_metadata: str | None = field("string", "0+", default="", nullable="0+")


class OffsetCommitRequestTopic(Message):
    name: str = field("string", "0-9", default="", ignorable=True)
    topic_id: bytes = field("uuid", "10+", default=NO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field(
        "[]struct", "0+", default_factory=list, of=OffsetCommitRequestPartition
    )


class OffsetCommitRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "2-10", "8+", api_key=8)

    group_id: str = field("string", "0+", default="")
    generation_id_or_member_epoch: int = field("int32", "1+", default=-1, ignorable=True)
    member_id: str = field("string", "1+", default="", ignorable=True)
    group_instance_id: str | None = field("string", "7+", default=None, nullable="7+")
    retention_time_ms: int = field("int64", "2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field(
        "[]struct", "0+", default_factory=list, of=OffsetCommitRequestTopic
    )
