"""EnvelopeRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class EnvelopeRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=58)

    request_data: bytes = field("bytes", "0+", default=b"")
    request_principal: bytes | None = field("bytes", "0+", default=b"", nullable="0+")
    client_host_address: bytes = field("bytes", "0+", default=b"")
