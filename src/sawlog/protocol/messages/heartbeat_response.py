"""HeartbeatResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class HeartbeatResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-4", "4+", api_key=12)

    throttle_time_ms: int = field("int32", "1+", default=0, ignorable=True)
    error_code: int = field("int16", "0+", default=0)
