"""CreateAclsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AclCreationResult(Message):
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")


class CreateAclsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-3", "2+", api_key=30)

    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[AclCreationResult] = field(
        "[]struct", "0+", default_factory=list, of=AclCreationResult
    )
