"""EndTxnMarker: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class EndTxnMarker(Message):
    SCHEMA: ClassVar[Schema] = Schema("data", "0", "none")

    coordinator_epoch: int = field("int32", "0+", default=0)
