"""AlterReplicaLogDirsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AlterReplicaLogDirPartitionResult(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


class AlterReplicaLogDirTopicResult(Message):
    topic_name: str = field("string", "0+", default="")
    partitions: list[AlterReplicaLogDirPartitionResult] = field(
        "[]struct", "0+", default_factory=list, of=AlterReplicaLogDirPartitionResult
    )


class AlterReplicaLogDirsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-2", "2+", api_key=34)

    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[AlterReplicaLogDirTopicResult] = field(
        "[]struct", "0+", default_factory=list, of=AlterReplicaLogDirTopicResult
    )
