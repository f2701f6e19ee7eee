"""ConsumerGroupMetadataKey: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ConsumerGroupMetadataKey(Message):
    SCHEMA: ClassVar[Schema] = Schema("coordinator-key", "0", "none", api_key=3)

    group_id: str = field("string", "0", default="")
