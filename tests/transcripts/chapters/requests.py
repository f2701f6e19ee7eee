"""Batches and Produce requests in few words, for the chapters that need them."""

from typing import Any

from sawlog.protocol.records import Record, build_batch

TIME = 1_700_000_000_000


def batch(*values: str | None, at: int = TIME, key: bytes | None = None, **more: Any) -> bytes:
    """A batch of these values, a second apart."""
    records = [
        Record(0, at + index * 1_000, key, None if value is None else value.encode())
        for index, value in enumerate(values)
    ]
    return bytes(build_batch(records, **more))


def produce(
    topic: str | bytes, records: bytes | None, partition: int = 0, acks: int = -1, **more: Any
) -> dict[str, Any]:
    """A Produce request with one partition; a topic is named, or given by its id."""
    return {
        "acks": acks,
        "timeout_ms": 10_000,
        "topic_data": [data(topic, (partition, records))],
        **more,
    }


def errors_start_anywhere(answer: dict[str, Any]) -> dict[str, Any]:
    """Kafka tells the start of the log with some errors and not with others; no client looks."""
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
