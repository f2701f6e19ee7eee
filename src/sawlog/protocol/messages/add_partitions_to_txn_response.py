"""AddPartitionsToTxnResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AddPartitionsToTxnPartitionResult(Message):
    partition_index: int = field("int32", "0+", default=0)
    partition_error_code: int = field("int16", "0+", default=0)


class AddPartitionsToTxnTopicResult(Message):
    name: str = field("string", "0+", default="")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(
        "[]struct", "0+", default_factory=list, of=AddPartitionsToTxnPartitionResult
    )


class AddPartitionsToTxnResult(Message):
    transactional_id: str = field("string", "4+", default="")
    topic_results: list[AddPartitionsToTxnTopicResult] = field(
        "[]struct", "4+", default_factory=list, of=AddPartitionsToTxnTopicResult
    )


class AddPartitionsToTxnResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-5", "3+", api_key=24)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(
        "[]struct", "4+", default_factory=list, of=AddPartitionsToTxnResult
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        "[]struct", "0-3", default_factory=list, of=AddPartitionsToTxnTopicResult
    )
