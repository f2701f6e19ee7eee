"""StreamsGroupHeartbeatResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class Status(Message):
    status_code: int = field("int8", "0+", default=0)
    status_detail: str = field("string", "0+", default="")


class TaskIds(Message):
    subtopology_id: str = field("string", "0+", default="")
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class Endpoint(Message):
    host: str = field("string", "0+", default="")
    port: int = field("uint16", "0+", default=0)


class TopicPartition(Message):
    topic: str = field("string", "0+", default="")
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class EndpointToPartitions(Message):
    user_endpoint: Endpoint = field("struct", "0+", default_factory=Endpoint, of=Endpoint)
    active_partitions: list[TopicPartition] = field(
        "[]struct", "0+", default_factory=list, of=TopicPartition
    )
    standby_partitions: list[TopicPartition] = field(
        "[]struct", "0+", default_factory=list, of=TopicPartition
    )


class StreamsGroupHeartbeatResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=88)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    member_id: str = field("string", "0+", default="")
    member_epoch: int = field("int32", "0+", default=0)
    heartbeat_interval_ms: int = field("int32", "0+", default=0)
    acceptable_recovery_lag: int = field("int32", "0+", default=0)
    task_offset_interval_ms: int = field("int32", "0+", default=0)
    status: list[Status] | None = field(
        "[]struct", "0+", default_factory=list, of=Status, nullable="0+"
    )
    active_tasks: list[TaskIds] | None = field(
        "[]struct", "0+", default=None, of=TaskIds, nullable="0+"
    )
    standby_tasks: list[TaskIds] | None = field(
        "[]struct", "0+", default=None, of=TaskIds, nullable="0+"
    )
    warmup_tasks: list[TaskIds] | None = field(
        "[]struct", "0+", default=None, of=TaskIds, nullable="0+"
    )
    endpoint_information_epoch: int = field("int32", "0+", default=0)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(
        "[]struct", "0+", default=None, of=EndpointToPartitions, nullable="0+"
    )
