"""DescribeConfigsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DescribeConfigsSynonym(Message):
    name: str = field("string", "1+", default="")
    value: str | None = field("string", "1+", default="", nullable="0+")
    source: int = field("int8", "1+", default=0)


class DescribeConfigsResourceResult(Message):
    name: str = field("string", "0+", default="")
    value: str | None = field("string", "0+", default="", nullable="0+")
    read_only: bool = field("bool", "0+", default=False)
    config_source: int = field("int8", "1+", default=-1, ignorable=True)
    is_sensitive: bool = field("bool", "0+", default=False)
    synonyms: list[DescribeConfigsSynonym] = field(
        "[]struct", "1+", default_factory=list, of=DescribeConfigsSynonym, ignorable=True
    )
    config_type: int = field("int8", "3+", default=0, ignorable=True)
    documentation: str | None = field("string", "3+", default="", nullable="0+", ignorable=True)


class DescribeConfigsResult(Message):
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    configs: list[DescribeConfigsResourceResult] = field(
        "[]struct", "0+", default_factory=list, of=DescribeConfigsResourceResult
    )


class DescribeConfigsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-4", "4+", api_key=32)

    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[DescribeConfigsResult] = field(
        "[]struct", "0+", default_factory=list, of=DescribeConfigsResult
    )
