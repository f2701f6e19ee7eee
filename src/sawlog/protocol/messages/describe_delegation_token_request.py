"""DescribeDelegationTokenRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DescribeDelegationTokenOwner(Message):
    principal_type: str = field("string", "0+", default="")
    principal_name: str = field("string", "0+", default="")


class DescribeDelegationTokenRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-3", "2+", api_key=41)

    owners: list[DescribeDelegationTokenOwner] | None = field(
        "[]struct", "0+", default_factory=list, of=DescribeDelegationTokenOwner, nullable="0+"
    )
