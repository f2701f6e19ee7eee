"""ShareGroupDescribeRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ShareGroupDescribeRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1", "0+", api_key=77)

    group_ids: list[str] = field("[]string", "0+", default_factory=list)
    include_authorized_operations: bool = field("bool", "0+", default=False)
