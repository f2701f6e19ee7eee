"""CreateTopicsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class CreatableReplicaAssignment(Message):
    partition_index: int = field("int32", "0+", default=0)
    broker_ids: list[int] = field("[]int32", "0+", default_factory=list)


class CreatableTopicConfig(Message):
    name: str = field("string", "0+", default="")
    value: str | None = field("string", "0+", default="", nullable="0+")


class CreatableTopic(Message):
    name: str = field("string", "0+", default="")
    num_partitions: int = field("int32", "0+", default=0)
    replication_factor: int = field("int16", "0+", default=0)
    assignments: list[CreatableReplicaAssignment] = field(
        "[]struct", "0+", default_factory=list, of=CreatableReplicaAssignment
    )
    configs: list[CreatableTopicConfig] = field(
        "[]struct", "0+", default_factory=list, of=CreatableTopicConfig
    )


class CreateTopicsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "2-7", "5+", api_key=19)

    topics: list[CreatableTopic] = field("[]struct", "0+", default_factory=list, of=CreatableTopic)
    timeout_ms: int = field("int32", "0+", default=60000)
    validate_only: bool = field("bool", "1+", default=False)
