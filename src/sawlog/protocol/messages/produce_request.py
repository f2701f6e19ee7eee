"""ProduceRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Records, Schema, field


class PartitionProduceData(Message):
    index: int = field("int32", "0+", default=0)
    records: Records = field("records", "0+", default=None, nullable="0+")


class TopicProduceData(Message):
    name: str = field("string", "0-12", default="", ignorable=True)
    topic_id: bytes = field("uuid", "13+", default=NO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionProduceData
    )


class ProduceRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "3-13", "9+", api_key=0)

    transactional_id: str | None = field("string", "3+", default=None, nullable="3+")
    acks: int = field("int16", "0+", default=0)
    timeout_ms: int = field("int32", "0+", default=0)
    topic_data: list[TopicProduceData] = field(
        "[]struct", "0+", default_factory=list, of=TopicProduceData
    )
