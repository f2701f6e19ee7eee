"""StreamsGroupHeartbeatRequest: written by tools/generate_messages.py, not by hand."""

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


class CopartitionGroup(Message):
    source_topics: list[int] = field("[]int16", "0+", default_factory=list)
    source_topic_regex: list[int] = field("[]int16", "0+", default_factory=list)
    repartition_source_topics: list[int] = field("[]int16", "0+", default_factory=list)


class Subtopology(Message):
    subtopology_id: str = field("string", "0+", default="")
    source_topics: list[str] = field("[]string", "0+", default_factory=list)
    source_topic_regex: list[str] = field("[]string", "0+", default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(
        "[]struct", "0+", default_factory=list, of=TopicInfo
    )
    repartition_sink_topics: list[str] = field("[]string", "0+", default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(
        "[]struct", "0+", default_factory=list, of=TopicInfo
    )
    copartition_groups: list[CopartitionGroup] = field(
        "[]struct", "0+", default_factory=list, of=CopartitionGroup
    )


class Topology(Message):
    epoch: int = field("int32", "0+", default=0)
    subtopologies: list[Subtopology] = field("[]struct", "0+", default_factory=list, of=Subtopology)


class TaskIds(Message):
    subtopology_id: str = field("string", "0+", default="")
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class Endpoint(Message):
    host: str = field("string", "0+", default="")
    port: int = field("uint16", "0+", default=0)


class TaskOffset(Message):
    subtopology_id: str = field("string", "0+", default="")
    partition: int = field("int32", "0+", default=0)
    offset: int = field("int64", "0+", default=0)


class StreamsGroupHeartbeatRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=88)

    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0+", default="")
    member_epoch: int = field("int32", "0+", default=0)
    endpoint_information_epoch: int = field("int32", "0+", default=0)
    instance_id: str | None = field("string", "0+", default=None, nullable="0+")
    rack_id: str | None = field("string", "0+", default=None, nullable="0+")
    rebalance_timeout_ms: int = field("int32", "0+", default=-1)
    topology: Topology | None = field("struct", "0+", default=None, of=Topology, nullable="0+")
    active_tasks: list[TaskIds] | None = field(
        "[]struct", "0+", default=None, of=TaskIds, nullable="0+"
    )
    standby_tasks: list[TaskIds] | None = field(
        "[]struct", "0+", default=None, of=TaskIds, nullable="0+"
    )
    warmup_tasks: list[TaskIds] | None = field(
        "[]struct", "0+", default=None, of=TaskIds, nullable="0+"
    )
    process_id: str | None = field("string", "0+", default=None, nullable="0+")
    user_endpoint: Endpoint | None = field("struct", "0+", default=None, of=Endpoint, nullable="0+")
    client_tags: list[KeyValue] | None = field(
        "[]struct", "0+", default=None, of=KeyValue, nullable="0+"
    )
    task_offsets: list[TaskOffset] | None = field(
        "[]struct", "0+", default=None, of=TaskOffset, nullable="0+"
    )
    task_end_offsets: list[TaskOffset] | None = field(
        "[]struct", "0+", default=None, of=TaskOffset, nullable="0+"
    )
    shutdown_application: bool = field("bool", "0+", default=False)
