"""ListOffsetsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ListOffsetsPartitionResponse(Message):
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    timestamp: int = field("int64", "1+", default=-1)
    offset: int = field("int64", "1+", default=-1)
    leader_epoch: int = field("int32", "4+", default=-1)


class ListOffsetsTopicResponse(Message):
    name: str = field("string", "0+", default="")
    partitions: list[ListOffsetsPartitionResponse] = field(
        "[]struct", "0+", default_factory=list, of=ListOffsetsPartitionResponse
    )


class ListOffsetsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-11", "6+", api_key=2)

    throttle_time_ms: int = field("int32", "2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(
        "[]struct", "0+", default_factory=list, of=ListOffsetsTopicResponse
    )
