"""ConsumerGroupPartitionMetadataValue: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class PartitionMetadata(Message):
    partition: int = field("int32", "0+", default=0)
    racks: list[str] = field("[]string", "0+", default_factory=list)


class TopicMetadata(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    topic_name: str = field("string", "0+", default="")
    num_partitions: int = field("int32", "0+", default=0)
    partition_metadata: list[PartitionMetadata] = field(
        "[]struct", "0+", default_factory=list, of=PartitionMetadata
    )


class ConsumerGroupPartitionMetadataValue(Message):
    SCHEMA: ClassVar[Schema] = Schema("coordinator-value", "0", "0+", api_key=4)

    topics: list[TopicMetadata] = field("[]struct", "0+", default_factory=list, of=TopicMetadata)
