"""DefaultPrincipalData: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DefaultPrincipalData(Message):
    SCHEMA: ClassVar[Schema] = Schema("data", "0", "0+")

    type: str = field("string", "0+", default="")
    name: str = field("string", "0+", default="")
    token_authenticated: bool = field("bool", "0+", default=False)
