"""DeleteRecordsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DeleteRecordsPartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    offset: int = field("int64", "0+", default=0)


class DeleteRecordsTopic(Message):
    name: str = field("string", "0+", default="")
    partitions: list[DeleteRecordsPartition] = field(
        "[]struct", "0+", default_factory=list, of=DeleteRecordsPartition
    )


class DeleteRecordsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-2", "2+", api_key=21)

    topics: list[DeleteRecordsTopic] = field(
        "[]struct", "0+", default_factory=list, of=DeleteRecordsTopic
    )
    timeout_ms: int = field("int32", "0+", default=0)
