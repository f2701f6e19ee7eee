"""InitProducerIdResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class InitProducerIdResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-6", "2+", api_key=22)

    throttle_time_ms: int = field("int32", "0+", default=0, ignorable=True)
    error_code: int = field("int16", "0+", default=0)
    producer_id: int = field("int64", "0+", default=-1)
    producer_epoch: int = field("int16", "0+", default=0)
    ongoing_txn_producer_id: int = field("int64", "6+", default=-1)
    ongoing_txn_producer_epoch: int = field("int16", "6+", default=-1)
