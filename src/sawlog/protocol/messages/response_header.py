"""ResponseHeader: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ResponseHeader(Message):
    SCHEMA: ClassVar[Schema] = Schema("header", "0-1", "1+")

    correlation_id: int = field("int32", "0+", default=0)
