"""EndTxnRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class EndTxnRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-5", "3+", api_key=26)

    transactional_id: str = field("string", "0+", default="")
    producer_id: int = field("int64", "0+", default=0)
    producer_epoch: int = field("int16", "0+", default=0)
    committed: bool = field("bool", "0+", default=False)
