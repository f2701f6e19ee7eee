"""DescribeClientQuotasResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class EntityData(Message):
    entity_type: str = field("string", "0+", default="")
    entity_name: str | None = field("string", "0+", default="", nullable="0+")


class ValueData(Message):
    key: str = field("string", "0+", default="")
    value: float = field("float64", "0+", default=0.0)


class EntryData(Message):
    entity: list[EntityData] = field("[]struct", "0+", default_factory=list, of=EntityData)
    values: list[ValueData] = field("[]struct", "0+", default_factory=list, of=ValueData)


class DescribeClientQuotasResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-1", "1+", api_key=48)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    entries: list[EntryData] | None = field(
        "[]struct", "0+", default_factory=list, of=EntryData, nullable="0+"
    )
