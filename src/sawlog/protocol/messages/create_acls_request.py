"""CreateAclsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AclCreation(Message):
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    resource_pattern_type: int = field("int8", "1+", default=3)
    principal: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    operation: int = field("int8", "0+", default=0)
    permission_type: int = field("int8", "0+", default=0)


class CreateAclsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-3", "2+", api_key=30)

    creations: list[AclCreation] = field("[]struct", "0+", default_factory=list, of=AclCreation)
