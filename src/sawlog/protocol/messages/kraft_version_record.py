"""KRaftVersionRecord: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class KRaftVersionRecord(Message):
    SCHEMA: ClassVar[Schema] = Schema("data", "0", "0+")

    version: int = field("int16", "0+", default=0)
    kraft_version: int = field("int16", "0+", default=0)
