"""SaslAuthenticateResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class SaslAuthenticateResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-2", "2+", api_key=36)

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    auth_bytes: bytes = field("bytes", "0+", default=b"")
    session_lifetime_ms: int = field("int64", "1+", default=0, ignorable=True)
