"""ListConfigResourcesResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ConfigResource(Message):
    resource_name: str = field("string", "0+", default="")
    resource_type: int = field("int8", "1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-1", "0+", api_key=74)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    config_resources: list[ConfigResource] = field(
        "[]struct", "0+", default_factory=list, of=ConfigResource
    )
