"""LegacyOffsetCommitKey: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class LegacyOffsetCommitKey(Message):
    SCHEMA: ClassVar[Schema] = Schema("coordinator-key", "0", "none", api_key=0)

    group: str = field("string", "0", default="")
    topic: str = field("string", "0", default="")
    partition: int = field("int32", "0", default=0)
