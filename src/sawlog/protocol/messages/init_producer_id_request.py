"""InitProducerIdRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class InitProducerIdRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-6", "2+", api_key=22)

    transactional_id: str | None = field("string", "0+", default="", nullable="0+")
    transaction_timeout_ms: int = field("int32", "0+", default=0)
    producer_id: int = field("int64", "3+", default=-1)
    producer_epoch: int = field("int16", "3+", default=-1)
    enable2_pc: bool = field("bool", "6+", default=False)
    keep_prepared_txn: bool = field("bool", "6+", default=False)
