"""DeleteAclsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DeleteAclsMatchingAcl(Message):
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    pattern_type: int = field("int8", "1+", default=3)
    principal: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    operation: int = field("int8", "0+", default=0)
    permission_type: int = field("int8", "0+", default=0)


class DeleteAclsFilterResult(Message):
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = field(
        "[]struct", "0+", default_factory=list, of=DeleteAclsMatchingAcl
    )


class DeleteAclsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-3", "2+", api_key=31)

    throttle_time_ms: int = field("int32", "0+", default=0)
    filter_results: list[DeleteAclsFilterResult] = field(
        "[]struct", "0+", default_factory=list, of=DeleteAclsFilterResult
    )
