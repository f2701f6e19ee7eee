"""ConsumerGroupMetadataValue: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ConsumerGroupMetadataValue(Message):
    SCHEMA: ClassVar[Schema] = Schema("coordinator-value", "0", "0+", api_key=3)

    epoch: int = field("int32", "0+", default=0)
    metadata_hash: int = field("int64", "0+", default=0, tag=0, tagged="0+")
