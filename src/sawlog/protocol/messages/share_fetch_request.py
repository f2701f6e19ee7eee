"""ShareFetchRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class AcknowledgementBatch(Message):
    first_offset: int = field("int64", "0+", default=0)
    last_offset: int = field("int64", "0+", default=0)
    acknowledge_types: list[int] = field("[]int8", "0+", default_factory=list)


class FetchPartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    partition_max_bytes: int = field("int32", "0", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = field(
        "[]struct", "0+", default_factory=list, of=AcknowledgementBatch
    )


class FetchTopic(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[FetchPartition] = field(
        "[]struct", "0+", default_factory=list, of=FetchPartition
    )


class ForgottenTopic(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class ShareFetchRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-2", "0+", api_key=78)

    group_id: str | None = field("string", "0+", default=None, nullable="0+")
    member_id: str | None = field("string", "0+", default="", nullable="0+")
    share_session_epoch: int = field("int32", "0+", default=0)
    max_wait_ms: int = field("int32", "0+", default=0)
    min_bytes: int = field("int32", "0+", default=0)
    max_bytes: int = field("int32", "0+", default=2147483647)
    max_records: int = field("int32", "1+", default=0)
    batch_size: int = field("int32", "1+", default=0)
    share_acquire_mode: int = field("int8", "2+", default=0, ignorable=True)
    is_renew_ack: bool = field("bool", "2+", default=False)
    topics: list[FetchTopic] = field("[]struct", "0+", default_factory=list, of=FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = field(
        "[]struct", "0+", default_factory=list, of=ForgottenTopic
    )
