"""AlterUserScramCredentialsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AlterUserScramCredentialsResult(Message):
    user: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")


class AlterUserScramCredentialsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=51)

    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[AlterUserScramCredentialsResult] = field(
        "[]struct", "0+", default_factory=list, of=AlterUserScramCredentialsResult
    )
