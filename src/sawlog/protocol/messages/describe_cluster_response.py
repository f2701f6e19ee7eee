"""DescribeClusterResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DescribeClusterBroker(Message):
    broker_id: int = field("int32", "0+", default=0)
    host: str = field("string", "0+", default="")
    port: int = field("int32", "0+", default=0)
    rack: str | None = field("string", "0+", default=None, nullable="0+")
    is_fenced: bool = field("bool", "2+", default=False)


class DescribeClusterResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-2", "0+", api_key=60)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    endpoint_type: int = field("int8", "1+", default=1)
    cluster_id: str = field("string", "0+", default="")
    controller_id: int = field("int32", "0+", default=-1)
    brokers: list[DescribeClusterBroker] = field(
        "[]struct", "0+", default_factory=list, of=DescribeClusterBroker
    )
    cluster_authorized_operations: int = field("int32", "0+", default=-2147483648)
