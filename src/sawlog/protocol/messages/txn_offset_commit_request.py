"""TxnOffsetCommitRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class TxnOffsetCommitRequestPartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    committed_offset: int = field("int64", "0+", default=0)
    committed_leader_epoch: int = field("int32", "2+", default=-1, ignorable=True)
    committed_metadata: str | None = field("string", "0+", default="", nullable="0+")


class TxnOffsetCommitRequestTopic(Message):
    name: str = field("string", "0+", default="")
    partitions: list[TxnOffsetCommitRequestPartition] = field(
        "[]struct", "0+", default_factory=list, of=TxnOffsetCommitRequestPartition
    )


class TxnOffsetCommitRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-5", "3+", api_key=28)

    transactional_id: str = field("string", "0+", default="")
    group_id: str = field("string", "0+", default="")
    producer_id: int = field("int64", "0+", default=0)
    producer_epoch: int = field("int16", "0+", default=0)
    generation_id: int = field("int32", "3+", default=-1)
    member_id: str = field("string", "3+", default="")
    group_instance_id: str | None = field("string", "3+", default=None, nullable="3+")
    topics: list[TxnOffsetCommitRequestTopic] = field(
        "[]struct", "0+", default_factory=list, of=TxnOffsetCommitRequestTopic
    )
