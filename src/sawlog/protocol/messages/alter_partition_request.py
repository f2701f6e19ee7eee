"""AlterPartitionRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class BrokerState(Message):
    broker_id: int = field("int32", "3+", default=0)
    broker_epoch: int = field("int64", "3+", default=-1)


class PartitionData(Message):
    partition_index: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    new_isr: list[int] = field("[]int32", "0-2", default_factory=list)
    new_isr_with_epochs: list[BrokerState] = field(
        "[]struct", "3+", default_factory=list, of=BrokerState
    )
    leader_recovery_state: int = field("int8", "1+", default=0)
    partition_epoch: int = field("int32", "0+", default=0)


class TopicData(Message):
    topic_id: bytes = field("uuid", "2+", default=NO_UUID, ignorable=True)
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class AlterPartitionRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "2-3", "0+", api_key=56)

    broker_id: int = field("int32", "0+", default=0)
    broker_epoch: int = field("int64", "0+", default=-1)
    topics: list[TopicData] = field("[]struct", "0+", default_factory=list, of=TopicData)
