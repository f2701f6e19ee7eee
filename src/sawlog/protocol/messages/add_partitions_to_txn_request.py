"""AddPartitionsToTxnRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AddPartitionsToTxnTopic(Message):
    name: str = field("string", "0+", default="")
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class AddPartitionsToTxnTransaction(Message):
    transactional_id: str = field("string", "4+", default="")
    producer_id: int = field("int64", "4+", default=0)
    producer_epoch: int = field("int16", "4+", default=0)
    verify_only: bool = field("bool", "4+", default=False)
    topics: list[AddPartitionsToTxnTopic] = field(
        "[]struct", "4+", default_factory=list, of=AddPartitionsToTxnTopic
    )


class AddPartitionsToTxnRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-5", "3+", api_key=24)

    transactions: list[AddPartitionsToTxnTransaction] = field(
        "[]struct", "4+", default_factory=list, of=AddPartitionsToTxnTransaction
    )
    v3_and_below_transactional_id: str = field("string", "0-3", default="")
    v3_and_below_producer_id: int = field("int64", "0-3", default=0)
    v3_and_below_producer_epoch: int = field("int16", "0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(
        "[]struct", "0-3", default_factory=list, of=AddPartitionsToTxnTopic
    )
