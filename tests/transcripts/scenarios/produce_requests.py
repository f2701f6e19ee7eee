"""Builders of batches and Produce requests."""

from typing import Any

from sawlog.protocol.records import Record, build_batch

TIME = 1_700_000_000_000


def batch(*values: str | None, at: int = TIME, key: bytes | None = None, **more: Any) -> bytes:
    """Encode a batch of these values with timestamps one second apart."""
    records = [
        Record(0, at + index * 1_000, key, None if value is None else value.encode())
        for index, value in enumerate(values)
    ]
    return bytes(build_batch(records, **more))


def produce(
    topic: str | bytes, records: bytes | None, partition: int = 0, acks: int = -1, **more: Any
) -> dict[str, Any]:
    """A Produce request for one partition of a topic, given by name or id."""
    return {
        "acks": acks,
        "timeout_ms": 10_000,
        "topic_data": [data(topic, (partition, records))],
        **more,
    }


def without_error_start_offsets(answer: dict[str, Any]) -> dict[str, Any]:
    """Kafka returns the log start offset with some errors only; clients ignore it there."""
    for topic in answer["responses"]:
        for each in topic["partition_responses"]:
            if each["error_code"] != "NONE" and "log_start_offset" in each:
                each["log_start_offset"] = "<any>"
    return answer


def data(topic: str | bytes, *partitions: tuple[int, bytes | None]) -> dict[str, Any]:
    return {
        ("topic_id" if isinstance(topic, bytes) else "name"): topic,
        "partition_data": [{"index": index, "records": records} for index, records in partitions],
    }
