"""OffsetFetchRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class OffsetFetchRequestTopic(Message):
    name: str = field("string", "0-7", default="")
    partition_indexes: list[int] = field("[]int32", "0-7", default_factory=list)


class OffsetFetchRequestTopics(Message):
    name: str = field("string", "8-9", default="", ignorable=True)
    topic_id: bytes = field("uuid", "10+", default=NO_UUID, ignorable=True)
    partition_indexes: list[int] = field("[]int32", "8+", default_factory=list)


class OffsetFetchRequestGroup(Message):
    group_id: str = field("string", "8+", default="")
    member_id: str | None = field("string", "9+", default=None, nullable="9+", ignorable=True)
    member_epoch: int = field("int32", "9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(
        "[]struct", "8+", default_factory=list, of=OffsetFetchRequestTopics, nullable="8+"
    )


class OffsetFetchRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-10", "6+", api_key=9)

    group_id: str = field("string", "0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field(
        "[]struct", "0-7", default_factory=list, of=OffsetFetchRequestTopic, nullable="2-7"
    )
    groups: list[OffsetFetchRequestGroup] = field(
        "[]struct", "8+", default_factory=list, of=OffsetFetchRequestGroup
    )
    require_stable: bool = field("bool", "7+", default=False)
