"""CreatePartitionsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class CreatePartitionsTopicResult(Message):
    name: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


class CreatePartitionsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-3", "2+", api_key=37)

    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[CreatePartitionsTopicResult] = field(
        "[]struct", "0+", default_factory=list, of=CreatePartitionsTopicResult
    )
