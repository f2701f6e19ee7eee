"""RenewDelegationTokenRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class RenewDelegationTokenRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-2", "2+", api_key=39)

    hmac: bytes = field("bytes", "0+", default=b"")
    renew_period_ms: int = field("int64", "0+", default=0)
