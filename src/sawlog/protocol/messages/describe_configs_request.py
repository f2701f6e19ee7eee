"""DescribeConfigsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DescribeConfigsResource(Message):
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    configuration_keys: list[str] | None = field(
        "[]string", "0+", default_factory=list, nullable="0+"
    )


class DescribeConfigsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-4", "4+", api_key=32)

    resources: list[DescribeConfigsResource] = field(
        "[]struct", "0+", default_factory=list, of=DescribeConfigsResource
    )
    include_synonyms: bool = field("bool", "1+", default=False)
    include_documentation: bool = field("bool", "3+", default=False)
