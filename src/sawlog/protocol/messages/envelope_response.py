"""EnvelopeResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class EnvelopeResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=58)

    response_data: bytes | None = field("bytes", "0+", default=None, nullable="0+")
    error_code: int = field("int16", "0+", default=0)
