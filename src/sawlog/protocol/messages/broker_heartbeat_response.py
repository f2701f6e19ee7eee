"""BrokerHeartbeatResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class BrokerHeartbeatResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-2", "0+", api_key=63)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    is_caught_up: bool = field("bool", "0+", default=False)
    is_fenced: bool = field("bool", "0+", default=True)
    should_shut_down: bool = field("bool", "0+", default=False)
