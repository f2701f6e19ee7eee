"""StreamsGroupDescribeResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class KeyValue(Message):
    key: str = field("string", "0+", default="")
    value: str = field("string", "0+", default="")


class TopicInfo(Message):
    name: str = field("string", "0+", default="")
    partitions: int = field("int32", "0+", default=0)
    replication_factor: int = field("int16", "0+", default=0)
    topic_configs: list[KeyValue] = field("[]struct", "0+", default_factory=list, of=KeyValue)


class Subtopology(Message):
    subtopology_id: str = field("string", "0+", default="")
    source_topics: list[str] = field("[]string", "0+", default_factory=list)
    repartition_sink_topics: list[str] = field("[]string", "0+", default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(
        "[]struct", "0+", default_factory=list, of=TopicInfo
    )
    repartition_source_topics: list[TopicInfo] = field(
        "[]struct", "0+", default_factory=list, of=TopicInfo
    )


class Topology(Message):
    epoch: int = field("int32", "0+", default=0)
    subtopologies: list[Subtopology] | None = field(
        "[]struct", "0+", default=None, of=Subtopology, nullable="0+"
    )


class Endpoint(Message):
    host: str = field("string", "0+", default="")
    port: int = field("uint16", "0+", default=0)


class TaskOffset(Message):
    subtopology_id: str = field("string", "0+", default="")
    partition: int = field("int32", "0+", default=0)
    offset: int = field("int64", "0+", default=0)


class TaskIds(Message):
    subtopology_id: str = field("string", "0+", default="")
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class Assignment(Message):
    active_tasks: list[TaskIds] = field("[]struct", "0+", default_factory=list, of=TaskIds)
    standby_tasks: list[TaskIds] = field("[]struct", "0+", default_factory=list, of=TaskIds)
    warmup_tasks: list[TaskIds] = field("[]struct", "0+", default_factory=list, of=TaskIds)


class Member(Message):
    member_id: str = field("string", "0+", default="")
    member_epoch: int = field("int32", "0+", default=0)
    instance_id: str | None = field("string", "0+", default=None, nullable="0+")
    rack_id: str | None = field("string", "0+", default=None, nullable="0+")
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    topology_epoch: int = field("int32", "0+", default=0)
    process_id: str = field("string", "0+", default="")
    user_endpoint: Endpoint | None = field("struct", "0+", default=None, of=Endpoint, nullable="0+")
    client_tags: list[KeyValue] = field("[]struct", "0+", default_factory=list, of=KeyValue)
    task_offsets: list[TaskOffset] = field("[]struct", "0+", default_factory=list, of=TaskOffset)
    task_end_offsets: list[TaskOffset] = field(
        "[]struct", "0+", default_factory=list, of=TaskOffset
    )
    assignment: Assignment = field("struct", "0+", default_factory=Assignment, of=Assignment)
    target_assignment: Assignment = field("struct", "0+", default_factory=Assignment, of=Assignment)
    is_classic: bool = field("bool", "0+", default=False)


class DescribedGroup(Message):
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    group_id: str = field("string", "0+", default="")
    group_state: str = field("string", "0+", default="")
    group_epoch: int = field("int32", "0+", default=0)
    assignment_epoch: int = field("int32", "0+", default=0)
    topology: Topology | None = field("struct", "0+", default=None, of=Topology, nullable="0+")
    members: list[Member] = field("[]struct", "0+", default_factory=list, of=Member)
    authorized_operations: int = field("int32", "0+", default=-2147483648)


class StreamsGroupDescribeResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=89)

    throttle_time_ms: int = field("int32", "0+", default=0)
    groups: list[DescribedGroup] = field("[]struct", "0+", default_factory=list, of=DescribedGroup)
