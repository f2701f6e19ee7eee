"""SaslAuthenticateRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class SaslAuthenticateRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-2", "2+", api_key=36)

    auth_bytes: bytes = field("bytes", "0+", default=b"")
