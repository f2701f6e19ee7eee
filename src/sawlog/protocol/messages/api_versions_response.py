"""ApiVersionsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ApiVersion(Message):
    api_key: int = field("int16", "0+", default=0)
    min_version: int = field("int16", "0+", default=0)
    max_version: int = field("int16", "0+", default=0)


class SupportedFeatureKey(Message):
    name: str = field("string", "3+", default="")
    min_version: int = field("int16", "3+", default=0)
    max_version: int = field("int16", "3+", default=0)


class FinalizedFeatureKey(Message):
    name: str = field("string", "3+", default="")
    max_version_level: int = field("int16", "3+", default=0)
    min_version_level: int = field("int16", "3+", default=0)


class ApiVersionsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-4", "3+", api_key=18)

    error_code: int = field("int16", "0+", default=0)
    api_keys: list[ApiVersion] = field("[]struct", "0+", default_factory=list, of=ApiVersion)
    throttle_time_ms: int = field("int32", "1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(
        "[]struct",
        "3+",
        default_factory=list,
        of=SupportedFeatureKey,
        tag=0,
        tagged="3+",
        ignorable=True,
    )
    finalized_features_epoch: int = field(
        "int64", "3+", default=-1, tag=1, tagged="3+", ignorable=True
    )
    finalized_features: list[FinalizedFeatureKey] = field(
        "[]struct",
        "3+",
        default_factory=list,
        of=FinalizedFeatureKey,
        tag=2,
        tagged="3+",
        ignorable=True,
    )
    zk_migration_ready: bool = field(
        "bool", "3+", default=False, tag=3, tagged="3+", ignorable=True
    )
