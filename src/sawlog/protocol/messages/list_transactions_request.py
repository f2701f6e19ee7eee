"""ListTransactionsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ListTransactionsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-2", "0+", api_key=66)

    state_filters: list[str] = field("[]string", "0+", default_factory=list)
    producer_id_filters: list[int] = field("[]int64", "0+", default_factory=list)
    duration_filter: int = field("int64", "1+", default=-1)
    transactional_id_pattern: str | None = field("string", "2+", default=None, nullable="2+")
