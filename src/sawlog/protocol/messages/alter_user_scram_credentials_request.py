"""AlterUserScramCredentialsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ScramCredentialDeletion(Message):
    name: str = field("string", "0+", default="")
    mechanism: int = field("int8", "0+", default=0)


class ScramCredentialUpsertion(Message):
    name: str = field("string", "0+", default="")
    mechanism: int = field("int8", "0+", default=0)
    iterations: int = field("int32", "0+", default=0)
    salt: bytes = field("bytes", "0+", default=b"")
    salted_password: bytes = field("bytes", "0+", default=b"")


class AlterUserScramCredentialsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=51)

    deletions: list[ScramCredentialDeletion] = field(
        "[]struct", "0+", default_factory=list, of=ScramCredentialDeletion
    )
    upsertions: list[ScramCredentialUpsertion] = field(
        "[]struct", "0+", default_factory=list, of=ScramCredentialUpsertion
    )
