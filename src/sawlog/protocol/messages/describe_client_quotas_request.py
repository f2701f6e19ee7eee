"""DescribeClientQuotasRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ComponentData(Message):
    entity_type: str = field("string", "0+", default="")
    match_type: int = field("int8", "0+", default=0)
    match: str | None = field("string", "0+", default="", nullable="0+")


class DescribeClientQuotasRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "1+", api_key=48)

    components: list[ComponentData] = field(
        "[]struct", "0+", default_factory=list, of=ComponentData
    )
    strict: bool = field("bool", "0+", default=False)
