"""DescribeProducersResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ProducerState(Message):
    producer_id: int = field("int64", "0+", default=0)
    producer_epoch: int = field("int32", "0+", default=0)
    last_sequence: int = field("int32", "0+", default=-1)
    last_timestamp: int = field("int64", "0+", default=-1)
    coordinator_epoch: int = field("int32", "0+", default=0)
    current_txn_start_offset: int = field("int64", "0+", default=-1)


class PartitionResponse(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    active_producers: list[ProducerState] = field(
        "[]struct", "0+", default_factory=list, of=ProducerState
    )


class TopicResponse(Message):
    name: str = field("string", "0+", default="")
    partitions: list[PartitionResponse] = field(
        "[]struct", "0+", default_factory=list, of=PartitionResponse
    )


class DescribeProducersResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=61)

    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[TopicResponse] = field("[]struct", "0+", default_factory=list, of=TopicResponse)
