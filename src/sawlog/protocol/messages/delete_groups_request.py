"""DeleteGroupsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DeleteGroupsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-2", "2+", api_key=42)

    groups_names: list[str] = field("[]string", "0+", default_factory=list)
