"""UpdateFeaturesRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class FeatureUpdateKey(Message):
    feature: str = field("string", "0+", default="")
    max_version_level: int = field("int16", "0+", default=0)
    allow_downgrade: bool = field("bool", "0", default=False)
    upgrade_type: int = field("int8", "1+", default=1)


class UpdateFeaturesRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-2", "0+", api_key=57)

    timeout_ms: int = field("int32", "0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = field(
        "[]struct", "0+", default_factory=list, of=FeatureUpdateKey
    )
    validate_only: bool = field("bool", "1+", default=False)
