"""PushTelemetryRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class PushTelemetryRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=72)

    client_instance_id: bytes = field("uuid", "0+", default=NO_UUID)
    subscription_id: int = field("int32", "0+", default=0)
    terminating: bool = field("bool", "0+", default=False)
    compression_type: int = field("int8", "0+", default=0)
    metrics: bytes = field("bytes", "0+", default=b"")
