"""PushTelemetryResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class PushTelemetryResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=72)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
