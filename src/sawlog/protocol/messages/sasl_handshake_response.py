"""SaslHandshakeResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class SaslHandshakeResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-1", "none", api_key=17)

    error_code: int = field("int16", "0+", default=0)
    mechanisms: list[str] = field("[]string", "0+", default_factory=list)
