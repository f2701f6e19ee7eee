"""IncrementalAlterConfigsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AlterableConfig(Message):
    name: str = field("string", "0+", default="")
    config_operation: int = field("int8", "0+", default=0)
    value: str | None = field("string", "0+", default="", nullable="0+")


class AlterConfigsResource(Message):
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    configs: list[AlterableConfig] = field(
        "[]struct", "0+", default_factory=list, of=AlterableConfig
    )


class IncrementalAlterConfigsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "1+", api_key=44)

    resources: list[AlterConfigsResource] = field(
        "[]struct", "0+", default_factory=list, of=AlterConfigsResource
    )
    validate_only: bool = field("bool", "0+", default=False)
