"""ShareAcknowledgeRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class AcknowledgementBatch(Message):
    first_offset: int = field("int64", "0+", default=0)
    last_offset: int = field("int64", "0+", default=0)
    acknowledge_types: list[int] = field("[]int8", "0+", default_factory=list)


class AcknowledgePartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = field(
        "[]struct", "0+", default_factory=list, of=AcknowledgementBatch
    )


class AcknowledgeTopic(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[AcknowledgePartition] = field(
        "[]struct", "0+", default_factory=list, of=AcknowledgePartition
    )


class ShareAcknowledgeRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-2", "0+", api_key=79)

    group_id: str | None = field("string", "0+", default=None, nullable="0+")
    member_id: str | None = field("string", "0+", default="", nullable="0+")
    share_session_epoch: int = field("int32", "0+", default=0)
    is_renew_ack: bool = field("bool", "2+", default=False)
    topics: list[AcknowledgeTopic] = field(
        "[]struct", "0+", default_factory=list, of=AcknowledgeTopic
    )
