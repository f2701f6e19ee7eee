"""ControlRecordTypeSchema: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ControlRecordTypeSchema(Message):
    SCHEMA: ClassVar[Schema] = Schema("data", "0", "none")

    type: int = field("int16", "0+", default=0)
