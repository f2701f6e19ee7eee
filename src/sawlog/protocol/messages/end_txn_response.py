"""EndTxnResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class EndTxnResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-5", "3+", api_key=26)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    producer_id: int = field("int64", "5+", default=-1, ignorable=True)
    producer_epoch: int = field("int16", "5+", default=-1, ignorable=True)
