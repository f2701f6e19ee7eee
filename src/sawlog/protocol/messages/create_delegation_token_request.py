"""CreateDelegationTokenRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class CreatableRenewers(Message):
    principal_type: str = field("string", "0+", default="")
    principal_name: str = field("string", "0+", default="")


class CreateDelegationTokenRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-3", "2+", api_key=38)

    owner_principal_type: str | None = field("string", "3+", default="", nullable="3+")
    owner_principal_name: str | None = field("string", "3+", default="", nullable="3+")
    renewers: list[CreatableRenewers] = field(
        "[]struct", "0+", default_factory=list, of=CreatableRenewers
    )
    max_lifetime_ms: int = field("int64", "0+", default=0)
