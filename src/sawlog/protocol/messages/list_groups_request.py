"""ListGroupsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ListGroupsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-5", "3+", api_key=16)

    states_filter: list[str] = field("[]string", "4+", default_factory=list)
    types_filter: list[str] = field("[]string", "5+", default_factory=list)
