"""DescribeTransactionsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class TopicData(Message):
    topic: str = field("string", "0+", default="")
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class TransactionState(Message):
    error_code: int = field("int16", "0+", default=0)
    transactional_id: str = field("string", "0+", default="")
    transaction_state: str = field("string", "0+", default="")
    transaction_timeout_ms: int = field("int32", "0+", default=0)
    transaction_start_time_ms: int = field("int64", "0+", default=0)
    producer_id: int = field("int64", "0+", default=0)
    producer_epoch: int = field("int16", "0+", default=0)
    topics: list[TopicData] = field("[]struct", "0+", default_factory=list, of=TopicData)


class DescribeTransactionsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=65)

    throttle_time_ms: int = field("int32", "0+", default=0)
    transaction_states: list[TransactionState] = field(
        "[]struct", "0+", default_factory=list, of=TransactionState
    )
