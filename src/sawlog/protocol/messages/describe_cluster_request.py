"""DescribeClusterRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DescribeClusterRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-2", "0+", api_key=60)

    include_cluster_authorized_operations: bool = field("bool", "0+", default=False)
    endpoint_type: int = field("int8", "1+", default=1)
    include_fenced_brokers: bool = field("bool", "2+", default=False)
