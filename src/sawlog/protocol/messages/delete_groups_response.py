"""DeleteGroupsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DeletableGroupResult(Message):
    group_id: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)


class DeleteGroupsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-2", "2+", api_key=42)

    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[DeletableGroupResult] = field(
        "[]struct", "0+", default_factory=list, of=DeletableGroupResult
    )
