"""ApiVersionsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ApiVersionsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-4", "3+", api_key=18)

    client_software_name: str = field("string", "3+", default="", ignorable=True)
    client_software_version: str = field("string", "3+", default="", ignorable=True)
