"""AlterClientQuotasRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class EntityData(Message):
    entity_type: str = field("string", "0+", default="")
    entity_name: str | None = field("string", "0+", default="", nullable="0+")


class OpData(Message):
    key: str = field("string", "0+", default="")
    value: float = field("float64", "0+", default=0.0)
    remove: bool = field("bool", "0+", default=False)


class EntryData(Message):
    entity: list[EntityData] = field("[]struct", "0+", default_factory=list, of=EntityData)
    ops: list[OpData] = field("[]struct", "0+", default_factory=list, of=OpData)


class AlterClientQuotasRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "1+", api_key=49)

    entries: list[EntryData] = field("[]struct", "0+", default_factory=list, of=EntryData)
    validate_only: bool = field("bool", "0+", default=False)
