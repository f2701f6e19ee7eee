"""LegacyOffsetCommitValue: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class LegacyOffsetCommitValue(Message):
    SCHEMA: ClassVar[Schema] = Schema("coordinator-value", "0", "none", api_key=0)

    offset: int = field("int64", "0", default=0)
    metadata: str = field("string", "0", default="")
    commit_timestamp: int = field("int64", "0", default=0)
