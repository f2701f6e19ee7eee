"""GetTelemetrySubscriptionsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class GetTelemetrySubscriptionsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=71)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    client_instance_id: bytes = field("uuid", "0+", default=NO_UUID)
    subscription_id: int = field("int32", "0+", default=0)
    accepted_compression_types: list[int] = field("[]int8", "0+", default_factory=list)
    push_interval_ms: int = field("int32", "0+", default=0)
    telemetry_max_bytes: int = field("int32", "0+", default=0)
    delta_temporality: bool = field("bool", "0+", default=False)
    requested_metrics: list[str] = field("[]string", "0+", default_factory=list)
