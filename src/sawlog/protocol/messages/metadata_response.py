"""MetadataResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class MetadataResponseBroker(Message):
    node_id: int = field("int32", "0+", default=0)
    host: str = field("string", "0+", default="")
    port: int = field("int32", "0+", default=0)
    rack: str | None = field("string", "1+", default=None, nullable="1+", ignorable=True)


class MetadataResponsePartition(Message):
    error_code: int = field("int16", "0+", default=0)
    partition_index: int = field("int32", "0+", default=0)
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "7+", default=-1, ignorable=True)
    replica_nodes: list[int] = field("[]int32", "0+", default_factory=list)
    isr_nodes: list[int] = field("[]int32", "0+", default_factory=list)
    offline_replicas: list[int] = field("[]int32", "5+", default_factory=list, ignorable=True)


class MetadataResponseTopic(Message):
    error_code: int = field("int16", "0+", default=0)
    name: str | None = field("string", "0+", default="", nullable="12+")
    topic_id: bytes = field("uuid", "10+", default=NO_UUID, ignorable=True)
    is_internal: bool = field("bool", "1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition] = field(
        "[]struct", "0+", default_factory=list, of=MetadataResponsePartition
    )
    topic_authorized_operations: int = field("int32", "8+", default=-2147483648)


class MetadataResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-13", "9+", api_key=3)

    throttle_time_ms: int = field("int32", "3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker] = field(
        "[]struct", "0+", default_factory=list, of=MetadataResponseBroker
    )
    cluster_id: str | None = field("string", "2+", default=None, nullable="2+", ignorable=True)
    controller_id: int = field("int32", "1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field(
        "[]struct", "0+", default_factory=list, of=MetadataResponseTopic
    )
    cluster_authorized_operations: int = field("int32", "8-10", default=-2147483648)
    error_code: int = field("int16", "13+", default=0, ignorable=True)
