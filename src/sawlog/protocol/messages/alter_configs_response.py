"""AlterConfigsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AlterConfigsResourceResponse(Message):
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")


class AlterConfigsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-2", "2+", api_key=33)

    throttle_time_ms: int = field("int32", "0+", default=0)
    responses: list[AlterConfigsResourceResponse] = field(
        "[]struct", "0+", default_factory=list, of=AlterConfigsResourceResponse
    )
