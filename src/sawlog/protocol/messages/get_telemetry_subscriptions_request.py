"""GetTelemetrySubscriptionsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class GetTelemetrySubscriptionsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=71)

    client_instance_id: bytes = field("uuid", "0+", default=NO_UUID)
