"""DescribeTransactionsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DescribeTransactionsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=65)

    transactional_ids: list[str] = field("[]string", "0+", default_factory=list)
