"""DescribeUserScramCredentialsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class UserName(Message):
    name: str = field("string", "0+", default="")


class DescribeUserScramCredentialsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=50)

    users: list[UserName] | None = field(
        "[]struct", "0+", default_factory=list, of=UserName, nullable="0+"
    )
