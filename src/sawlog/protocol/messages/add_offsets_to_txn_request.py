"""AddOffsetsToTxnRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AddOffsetsToTxnRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-4", "3+", api_key=25)

    transactional_id: str = field("string", "0+", default="")
    producer_id: int = field("int64", "0+", default=0)
    producer_epoch: int = field("int16", "0+", default=0)
    group_id: str = field("string", "0+", default="")
