"""AddRaftVoterResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AddRaftVoterResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-1", "0+", api_key=80)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+", ignorable=True)
