"""ConsumerGroupRegularExpressionValue: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ConsumerGroupRegularExpressionValue(Message):
    SCHEMA: ClassVar[Schema] = Schema("coordinator-value", "0", "0+", api_key=16)

    topics: list[str] = field("[]string", "0+", default_factory=list)
    version: int = field("int64", "0+", default=0)
    timestamp: int = field("int64", "0+", default=0)
