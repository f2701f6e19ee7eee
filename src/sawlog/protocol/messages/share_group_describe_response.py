"""ShareGroupDescribeResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class TopicPartitions(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    topic_name: str = field("string", "0+", default="")
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class Assignment(Message):
    topic_partitions: list[TopicPartitions] = field(
        "[]struct", "0+", default_factory=list, of=TopicPartitions
    )


class Member(Message):
    member_id: str = field("string", "0+", default="")
    rack_id: str | None = field("string", "0+", default=None, nullable="0+")
    member_epoch: int = field("int32", "0+", default=0)
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    subscribed_topic_names: list[str] = field("[]string", "0+", default_factory=list)
    assignment: Assignment = field("struct", "0+", default_factory=Assignment, of=Assignment)


class DescribedGroup(Message):
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    group_id: str = field("string", "0+", default="")
    group_state: str = field("string", "0+", default="")
    group_epoch: int = field("int32", "0+", default=0)
    assignment_epoch: int = field("int32", "0+", default=0)
    assignor_name: str = field("string", "0+", default="")
    members: list[Member] = field("[]struct", "0+", default_factory=list, of=Member)
    authorized_operations: int = field("int32", "0+", default=-2147483648)


class ShareGroupDescribeResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1", "0+", api_key=77)

    throttle_time_ms: int = field("int32", "0+", default=0)
    groups: list[DescribedGroup] = field("[]struct", "0+", default_factory=list, of=DescribedGroup)
