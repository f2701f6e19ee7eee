"""ConsumerGroupTargetAssignmentMetadataKey: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ConsumerGroupTargetAssignmentMetadataKey(Message):
    SCHEMA: ClassVar[Schema] = Schema("coordinator-key", "0", "none", api_key=6)

    group_id: str = field("string", "0", default="")
