"""DescribeAclsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AclDescription(Message):
    principal: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    operation: int = field("int8", "0+", default=0)
    permission_type: int = field("int8", "0+", default=0)


class DescribeAclsResource(Message):
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    pattern_type: int = field("int8", "1+", default=3)
    acls: list[AclDescription] = field("[]struct", "0+", default_factory=list, of=AclDescription)


class DescribeAclsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-3", "2+", api_key=29)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    resources: list[DescribeAclsResource] = field(
        "[]struct", "0+", default_factory=list, of=DescribeAclsResource
    )
