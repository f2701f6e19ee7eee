"""SyncGroupResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class SyncGroupResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-5", "4+", api_key=14)

    throttle_time_ms: int = field("int32", "1+", default=0, ignorable=True)
    error_code: int = field("int16", "0+", default=0)
    protocol_type: str | None = field("string", "5+", default=None, nullable="5+", ignorable=True)
    protocol_name: str | None = field("string", "5+", default=None, nullable="5+", ignorable=True)
    assignment: bytes = field("bytes", "0+", default=b"")
