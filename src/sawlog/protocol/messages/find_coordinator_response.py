"""FindCoordinatorResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class Coordinator(Message):
    key: str = field("string", "4+", default="")
    node_id: int = field("int32", "4+", default=0)
    host: str = field("string", "4+", default="")
    port: int = field("int32", "4+", default=0)
    error_code: int = field("int16", "4+", default=0)
    error_message: str | None = field("string", "4+", default="", nullable="4+", ignorable=True)


class FindCoordinatorResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-6", "3+", api_key=10)

    throttle_time_ms: int = field("int32", "1+", default=0, ignorable=True)
    error_code: int = field("int16", "0-3", default=0)
    error_message: str | None = field("string", "1-3", default="", nullable="1-3", ignorable=True)
    node_id: int = field("int32", "0-3", default=0)
    host: str = field("string", "0-3", default="")
    port: int = field("int32", "0-3", default=0)
    coordinators: list[Coordinator] = field("[]struct", "4+", default_factory=list, of=Coordinator)
