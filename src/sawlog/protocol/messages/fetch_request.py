"""FetchRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class ReplicaState(Message):
    replica_id: int = field("int32", "15+", default=-1)
    replica_epoch: int = field("int64", "15+", default=-1)


class FetchPartition(Message):
    partition: int = field("int32", "0+", default=0)
    current_leader_epoch: int = field("int32", "9+", default=-1, ignorable=True)
    fetch_offset: int = field("int64", "0+", default=0)
    last_fetched_epoch: int = field("int32", "12+", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1, ignorable=True)
    partition_max_bytes: int = field("int32", "0+", default=0)
    replica_directory_id: bytes = field(
        "uuid", "17+", default=NO_UUID, tag=0, tagged="17+", ignorable=True
    )
    high_watermark: int = field(
        "int64", "18+", default=9223372036854775807, tag=1, tagged="18+", ignorable=True
    )


class FetchTopic(Message):
    topic: str = field("string", "0-12", default="", ignorable=True)
    topic_id: bytes = field("uuid", "13+", default=NO_UUID, ignorable=True)
    partitions: list[FetchPartition] = field(
        "[]struct", "0+", default_factory=list, of=FetchPartition
    )


class ForgottenTopic(Message):
    topic: str = field("string", "7-12", default="", ignorable=True)
    topic_id: bytes = field("uuid", "13+", default=NO_UUID, ignorable=True)
    partitions: list[int] = field("[]int32", "7+", default_factory=list)


class FetchRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "4-18", "12+", api_key=1)

    cluster_id: str | None = field(
        "string", "12+", default=None, nullable="12+", tag=0, tagged="12+", ignorable=True
    )
    replica_id: int = field("int32", "0-14", default=-1)
    replica_state: ReplicaState = field(
        "struct", "15+", default_factory=ReplicaState, of=ReplicaState, tag=1, tagged="15+"
    )
    max_wait_ms: int = field("int32", "0+", default=0)
    min_bytes: int = field("int32", "0+", default=0)
    max_bytes: int = field("int32", "3+", default=2147483647, ignorable=True)
    isolation_level: int = field("int8", "4+", default=0, ignorable=True)
    session_id: int = field("int32", "7+", default=0, ignorable=True)
    session_epoch: int = field("int32", "7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = field("[]struct", "0+", default_factory=list, of=FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = field(
        "[]struct", "7+", default_factory=list, of=ForgottenTopic
    )
    rack_id: str = field("string", "11+", default="", ignorable=True)
