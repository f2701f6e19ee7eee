"""WriteTxnMarkersRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class WritableTxnMarkerTopic(Message):
    name: str = field("string", "0+", default="")
    partition_indexes: list[int] = field("[]int32", "0+", default_factory=list)


class WritableTxnMarker(Message):
    producer_id: int = field("int64", "0+", default=0)
    producer_epoch: int = field("int16", "0+", default=0)
    transaction_result: bool = field("bool", "0+", default=False)
    topics: list[WritableTxnMarkerTopic] = field(
        "[]struct", "0+", default_factory=list, of=WritableTxnMarkerTopic
    )
    coordinator_epoch: int = field("int32", "0+", default=0)
    transaction_version: int = field("int8", "2+", default=0, ignorable=True)


class WriteTxnMarkersRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-2", "1+", api_key=27)

    markers: list[WritableTxnMarker] = field(
        "[]struct", "0+", default_factory=list, of=WritableTxnMarker
    )
