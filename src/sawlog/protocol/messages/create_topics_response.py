"""CreateTopicsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class CreatableTopicConfigs(Message):
    name: str = field("string", "5+", default="")
    value: str | None = field("string", "5+", default="", nullable="5+")
    read_only: bool = field("bool", "5+", default=False)
    config_source: int = field("int8", "5+", default=-1, ignorable=True)
    is_sensitive: bool = field("bool", "5+", default=False)


class CreatableTopicResult(Message):
    name: str = field("string", "0+", default="")
    topic_id: bytes = field("uuid", "7+", default=NO_UUID, ignorable=True)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "1+", default="", nullable="0+", ignorable=True)
    topic_config_error_code: int = field(
        "int16", "5+", default=0, tag=0, tagged="5+", ignorable=True
    )
    num_partitions: int = field("int32", "5+", default=-1, ignorable=True)
    replication_factor: int = field("int16", "5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(
        "[]struct",
        "5+",
        default_factory=list,
        of=CreatableTopicConfigs,
        nullable="5+",
        ignorable=True,
    )


class CreateTopicsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "2-7", "5+", api_key=19)

    throttle_time_ms: int = field("int32", "2+", default=0, ignorable=True)
    topics: list[CreatableTopicResult] = field(
        "[]struct", "0+", default_factory=list, of=CreatableTopicResult
    )
