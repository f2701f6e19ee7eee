"""SaslHandshakeRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class SaslHandshakeRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "none", api_key=17)

    mechanism: str = field("string", "0+", default="")
