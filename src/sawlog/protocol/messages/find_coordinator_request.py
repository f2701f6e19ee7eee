"""FindCoordinatorRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class FindCoordinatorRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-6", "3+", api_key=10)

    key: str = field("string", "0-3", default="")
    key_type: int = field("int8", "1+", default=0)
    coordinator_keys: list[str] = field("[]string", "4+", default_factory=list)
