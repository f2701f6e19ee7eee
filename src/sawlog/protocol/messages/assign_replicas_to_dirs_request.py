"""AssignReplicasToDirsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)


class TopicData(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class DirectoryData(Message):
    id: bytes = field("uuid", "0+", default=NO_UUID)
    topics: list[TopicData] = field("[]struct", "0+", default_factory=list, of=TopicData)


class AssignReplicasToDirsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=73)

    broker_id: int = field("int32", "0+", default=0)
    broker_epoch: int = field("int64", "0+", default=-1)
    directories: list[DirectoryData] = field(
        "[]struct", "0+", default_factory=list, of=DirectoryData
    )
