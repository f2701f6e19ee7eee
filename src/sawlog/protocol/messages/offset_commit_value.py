"""OffsetCommitValue: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class OffsetCommitValue(Message):
    SCHEMA: ClassVar[Schema] = Schema("coordinator-value", "0-4", "4+", api_key=1)

    offset: int = field("int64", "0+", default=0)
    leader_epoch: int = field("int32", "3+", default=-1, ignorable=True)
    metadata: str = field("string", "0+", default="")
    commit_timestamp: int = field("int64", "0+", default=0)
    expire_timestamp: int = field("int64", "1", default=-1, ignorable=True)
    topic_id: bytes = field("uuid", "4+", default=NO_UUID, tag=0, tagged="4+", ignorable=True)
