"""UpdateFeaturesResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class UpdatableFeatureResult(Message):
    feature: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")


class UpdateFeaturesResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-2", "0+", api_key=57)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    results: list[UpdatableFeatureResult] = field(
        "[]struct", "0-1", default_factory=list, of=UpdatableFeatureResult, ignorable=True
    )
