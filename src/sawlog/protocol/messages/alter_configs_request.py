"""AlterConfigsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AlterableConfig(Message):
    name: str = field("string", "0+", default="")
    value: str | None = field("string", "0+", default="", nullable="0+")


class AlterConfigsResource(Message):
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    configs: list[AlterableConfig] = field(
        "[]struct", "0+", default_factory=list, of=AlterableConfig
    )


class AlterConfigsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-2", "2+", api_key=33)

    resources: list[AlterConfigsResource] = field(
        "[]struct", "0+", default_factory=list, of=AlterConfigsResource
    )
    validate_only: bool = field("bool", "0+", default=False)
