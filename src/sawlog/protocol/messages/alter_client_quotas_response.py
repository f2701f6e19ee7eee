"""AlterClientQuotasResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class EntityData(Message):
    entity_type: str = field("string", "0+", default="")
    entity_name: str | None = field("string", "0+", default="", nullable="0+")


class EntryData(Message):
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    entity: list[EntityData] = field("[]struct", "0+", default_factory=list, of=EntityData)


class AlterClientQuotasResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-1", "1+", api_key=49)

    throttle_time_ms: int = field("int32", "0+", default=0)
    entries: list[EntryData] = field("[]struct", "0+", default_factory=list, of=EntryData)
