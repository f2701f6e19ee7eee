"""AlterPartitionResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    isr: list[int] = field("[]int32", "0+", default_factory=list)
    leader_recovery_state: int = field("int8", "1+", default=0, ignorable=True)
    partition_epoch: int = field("int32", "0+", default=0)


class TopicData(Message):
    topic_id: bytes = field("uuid", "2+", default=NO_UUID, ignorable=True)
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class AlterPartitionResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "2-3", "0+", api_key=56)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    topics: list[TopicData] = field("[]struct", "0+", default_factory=list, of=TopicData)
