"""AddOffsetsToTxnResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AddOffsetsToTxnResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-4", "3+", api_key=25)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
