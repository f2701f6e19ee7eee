"""DeleteTopicsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class DeletableTopicResult(Message):
    name: str | None = field("string", "0+", default="", nullable="6+")
    topic_id: bytes = field("uuid", "6+", default=NO_UUID, ignorable=True)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "5+", default=None, nullable="5+", ignorable=True)


class DeleteTopicsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-6", "4+", api_key=20)

    throttle_time_ms: int = field("int32", "1+", default=0, ignorable=True)
    responses: list[DeletableTopicResult] = field(
        "[]struct", "0+", default_factory=list, of=DeletableTopicResult
    )
