"""OffsetFetchResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class OffsetFetchResponsePartition(Message):
    partition_index: int = field("int32", "0-7", default=0)
    committed_offset: int = field("int64", "0-7", default=0)
    committed_leader_epoch: int = field("int32", "5-7", default=-1, ignorable=True)
    metadata: str | None = field("string", "0-7", default="", nullable="0-7")
    error_code: int = field("int16", "0-7", default=0)


class OffsetFetchResponseTopic(Message):
    name: str = field("string", "0-7", default="")
    partitions: list[OffsetFetchResponsePartition] = field(
        "[]struct", "0-7", default_factory=list, of=OffsetFetchResponsePartition
    )


class OffsetFetchResponsePartitions(Message):
    partition_index: int = field("int32", "8+", default=0)
    committed_offset: int = field("int64", "8+", default=0)
    committed_leader_epoch: int = field("int32", "8+", default=-1, ignorable=True)
    metadata: str | None = field("string", "8+", default="", nullable="8+")
    error_code: int = field("int16", "8+", default=0)


class OffsetFetchResponseTopics(Message):
    name: str = field("string", "8-9", default="", ignorable=True)
    topic_id: bytes = field("uuid", "10+", default=NO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field(
        "[]struct", "8+", default_factory=list, of=OffsetFetchResponsePartitions
    )


class OffsetFetchResponseGroup(Message):
    group_id: str = field("string", "8+", default="")
    topics: list[OffsetFetchResponseTopics] = field(
        "[]struct", "8+", default_factory=list, of=OffsetFetchResponseTopics
    )
    error_code: int = field("int16", "8+", default=0)


class OffsetFetchResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-10", "6+", api_key=9)

    throttle_time_ms: int = field("int32", "3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(
        "[]struct", "0-7", default_factory=list, of=OffsetFetchResponseTopic
    )
    error_code: int = field("int16", "2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(
        "[]struct", "8+", default_factory=list, of=OffsetFetchResponseGroup
    )
