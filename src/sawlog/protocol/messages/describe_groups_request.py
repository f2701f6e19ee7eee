"""DescribeGroupsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DescribeGroupsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-6", "5+", api_key=15)

    groups: list[str] = field("[]string", "0+", default_factory=list)
    include_authorized_operations: bool = field("bool", "3+", default=False)
