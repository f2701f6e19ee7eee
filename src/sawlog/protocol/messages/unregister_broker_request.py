"""UnregisterBrokerRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class UnregisterBrokerRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=64)

    broker_id: int = field("int32", "0+", default=0)
