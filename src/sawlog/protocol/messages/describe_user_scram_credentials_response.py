"""DescribeUserScramCredentialsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class CredentialInfo(Message):
    mechanism: int = field("int8", "0+", default=0)
    iterations: int = field("int32", "0+", default=0)


class DescribeUserScramCredentialsResult(Message):
    user: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    credential_infos: list[CredentialInfo] = field(
        "[]struct", "0+", default_factory=list, of=CredentialInfo
    )


class DescribeUserScramCredentialsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=50)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = field(
        "[]struct", "0+", default_factory=list, of=DescribeUserScramCredentialsResult
    )
