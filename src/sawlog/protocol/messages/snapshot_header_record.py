"""SnapshotHeaderRecord: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class SnapshotHeaderRecord(Message):
    SCHEMA: ClassVar[Schema] = Schema("data", "0", "0+")

    version: int = field("int16", "0+", default=0)
    last_contained_log_timestamp: int = field("int64", "0+", default=0)
