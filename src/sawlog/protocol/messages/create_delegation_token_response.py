"""CreateDelegationTokenResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class CreateDelegationTokenResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-3", "2+", api_key=38)

    error_code: int = field("int16", "0+", default=0)
    principal_type: str = field("string", "0+", default="")
    principal_name: str = field("string", "0+", default="")
    token_requester_principal_type: str = field("string", "3+", default="")
    token_requester_principal_name: str = field("string", "3+", default="")
    issue_timestamp_ms: int = field("int64", "0+", default=0)
    expiry_timestamp_ms: int = field("int64", "0+", default=0)
    max_timestamp_ms: int = field("int64", "0+", default=0)
    token_id: str = field("string", "0+", default="")
    hmac: bytes = field("bytes", "0+", default=b"")
    throttle_time_ms: int = field("int32", "0+", default=0)
