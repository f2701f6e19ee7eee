"""AssignReplicasToDirsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


class TopicData(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class DirectoryData(Message):
    id: bytes = field("uuid", "0+", default=NO_UUID)
    topics: list[TopicData] = field("[]struct", "0+", default_factory=list, of=TopicData)


class AssignReplicasToDirsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=73)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    directories: list[DirectoryData] = field(
        "[]struct", "0+", default_factory=list, of=DirectoryData
    )
