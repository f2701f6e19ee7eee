"""ExpireDelegationTokenResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ExpireDelegationTokenResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-2", "2+", api_key=40)

    error_code: int = field("int16", "0+", default=0)
    expiry_timestamp_ms: int = field("int64", "0+", default=0)
    throttle_time_ms: int = field("int32", "0+", default=0)
