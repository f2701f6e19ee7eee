"""ListConfigResourcesRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ListConfigResourcesRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "0+", api_key=74)

    resource_types: list[int] = field("[]int8", "1+", default_factory=list)
