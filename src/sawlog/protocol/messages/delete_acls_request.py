"""DeleteAclsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DeleteAclsFilter(Message):
    resource_type_filter: int = field("int8", "0+", default=0)
    resource_name_filter: str | None = field("string", "0+", default="", nullable="0+")
    pattern_type_filter: int = field("int8", "1+", default=3)
    principal_filter: str | None = field("string", "0+", default="", nullable="0+")
    host_filter: str | None = field("string", "0+", default="", nullable="0+")
    operation: int = field("int8", "0+", default=0)
    permission_type: int = field("int8", "0+", default=0)


class DeleteAclsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-3", "2+", api_key=31)

    filters: list[DeleteAclsFilter] = field(
        "[]struct", "0+", default_factory=list, of=DeleteAclsFilter
    )
