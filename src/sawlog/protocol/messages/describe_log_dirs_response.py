"""DescribeLogDirsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DescribeLogDirsPartition(Message):
    partition_index: int = field("int32", "0+", default=0)
    partition_size: int = field("int64", "0+", default=0)
    offset_lag: int = field("int64", "0+", default=0)
    is_future_key: bool = field("bool", "0+", default=False)


class DescribeLogDirsTopic(Message):
    name: str = field("string", "0+", default="")
    partitions: list[DescribeLogDirsPartition] = field(
        "[]struct", "0+", default_factory=list, of=DescribeLogDirsPartition
    )


class DescribeLogDirsResult(Message):
    error_code: int = field("int16", "0+", default=0)
    log_dir: str = field("string", "0+", default="")
    topics: list[DescribeLogDirsTopic] = field(
        "[]struct", "0+", default_factory=list, of=DescribeLogDirsTopic
    )
    total_bytes: int = field("int64", "4+", default=-1, ignorable=True)
    usable_bytes: int = field("int64", "4+", default=-1, ignorable=True)
    is_cordoned: bool = field("bool", "5+", default=False, ignorable=True)


class DescribeLogDirsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "1-5", "2+", api_key=35)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult] = field(
        "[]struct", "0+", default_factory=list, of=DescribeLogDirsResult
    )
