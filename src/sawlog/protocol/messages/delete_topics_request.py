"""DeleteTopicsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class DeleteTopicState(Message):
    name: str | None = field("string", "6+", default=None, nullable="6+")
    topic_id: bytes = field("uuid", "6+", default=NO_UUID)


class DeleteTopicsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-6", "4+", api_key=20)

    topics: list[DeleteTopicState] = field(
        "[]struct", "6+", default_factory=list, of=DeleteTopicState
    )
    topic_names: list[str] = field("[]string", "0-5", default_factory=list, ignorable=True)
    timeout_ms: int = field("int32", "0+", default=0)
