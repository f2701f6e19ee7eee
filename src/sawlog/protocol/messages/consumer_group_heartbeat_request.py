"""ConsumerGroupHeartbeatRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class TopicPartitions(Message):
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class ConsumerGroupHeartbeatRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "0+", api_key=68)

    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0+", default="")
    member_epoch: int = field("int32", "0+", default=0)
    instance_id: str | None = field("string", "0+", default=None, nullable="0+")
    rack_id: str | None = field("string", "0+", default=None, nullable="0+")
    rebalance_timeout_ms: int = field("int32", "0+", default=-1)
    subscribed_topic_names: list[str] | None = field("[]string", "0+", default=None, nullable="0+")
    subscribed_topic_regex: str | None = field("string", "1+", default=None, nullable="1+")
    server_assignor: str | None = field("string", "0+", default=None, nullable="0+")
    topic_partitions: list[TopicPartitions] | None = field(
        "[]struct", "0+", default=None, of=TopicPartitions, nullable="0+"
    )
