"""RequestHeader: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class RequestHeader(Message):
    SCHEMA: ClassVar[Schema] = Schema("header", "1-2", "2+")

    request_api_key: int = field("int16", "0+", default=0)
    request_api_version: int = field("int16", "0+", default=0)
    correlation_id: int = field("int32", "0+", default=0)
    client_id: str | None = field("string", "1+", default="", nullable="1+", flexible="none")
