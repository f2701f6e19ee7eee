"""ListGroupsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class ListedGroup(Message):
    group_id: str = field("string", "0+", default="")
    protocol_type: str = field("string", "0+", default="")
    group_state: str = field("string", "4+", default="", ignorable=True)
    group_type: str = field("string", "5+", default="", ignorable=True)


class ListGroupsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-5", "3+", api_key=16)

    throttle_time_ms: int = field("int32", "1+", default=0, ignorable=True)
    error_code: int = field("int16", "0+", default=0)
    groups: list[ListedGroup] = field("[]struct", "0+", default_factory=list, of=ListedGroup)
