"""DeleteShareGroupOffsetsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class DeleteShareGroupOffsetsResponseTopic(Message):
    topic_name: str = field("string", "0+", default="")
    topic_id: bytes = field("uuid", "0+", default=NO_UUID)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


class DeleteShareGroupOffsetsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=92)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(
        "[]struct", "0+", default_factory=list, of=DeleteShareGroupOffsetsResponseTopic
    )
