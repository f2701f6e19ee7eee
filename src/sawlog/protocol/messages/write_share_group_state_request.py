"""WriteShareGroupStateRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class StateBatch(Message):
    first_offset: int = field("int64", "0+", default=0)
    last_offset: int = field("int64", "0+", default=0)
    delivery_state: int = field("int8", "0+", default=0)
    delivery_count: int = field("int16", "0+", default=0)


class PartitionData(Message):
    partition: int = field("int32", "0+", default=0)
    state_epoch: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)
    delivery_complete_count: int = field("int32", "1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = field("[]struct", "0+", default_factory=list, of=StateBatch)


class WriteStateData(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[PartitionData] = field(
        "[]struct", "0+", default_factory=list, of=PartitionData
    )


class WriteShareGroupStateRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "0+", api_key=85)

    group_id: str = field("string", "0+", default="")
    topics: list[WriteStateData] = field("[]struct", "0+", default_factory=list, of=WriteStateData)
