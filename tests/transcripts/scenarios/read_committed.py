"""Fetch and ListOffsets by isolation level, and DescribeProducers, with transactions in the log."""

from typing import Any

from transcripts.scenarios.describe_producers import in_order
from transcripts.scenarios.fetch import fetch, partition
from transcripts.scenarios.list_offsets import SPECIAL, at, listing
from transcripts.scenarios.produce_requests import TIME, batch, produce
from transcripts.scenarios.transactional_producer import (
    TransactionalProducer,
    wait_for_transactions,
)
from transcripts.script_client import KAFKA_FAILS
from transcripts.steps import Differs
from transcripts.transcript import Transcript

TOPIC = "committed"
BY_NAME = 12
NEWEST_FETCH = 18
NEWEST_LIST = 11
LATEST = -1
READ_COMMITTED = 1
NO_LEVEL = 2
NO_SUCH_LEVEL = Differs(
    KAFKA_FAILS,
    {
        "error_code": "INVALID_REQUEST",
        "responses.0.partitions.0.error_code": "INVALID_REQUEST",
    },
)


def run(transcript: Transcript) -> None:
    wait_for_transactions(transcript)
    topic_id = transcript.create_topic(TOPIC, 2)
    open_one = history(transcript)
    fetches(transcript, topic_id)
    lists(transcript)
    described(transcript, "with an open transaction")
    open_one.end("the open transaction is aborted", commit=False)
    read(transcript, "after the abort", 0)
    latest(transcript)
    described(transcript, "without an open transaction")
    deleted_records(transcript)


def history(transcript: Transcript) -> TransactionalProducer:
    """Two aborted transactions that overlap, a committed one, plain records, and one that is left
    open; the producer of that one."""
    first, second, last = (
        TransactionalProducer(transcript, f"committed-{name}", TOPIC)
        for name in ("first", "second", "last")
    )
    for producer in (first, second, last):
        producer.init("a transactional id")
    first.produce("the first producer", 0)
    second.produce("the second producer", 0)
    first.end("the first one is aborted", commit=False)
    transcript.request_unrecorded("Produce", 9, produce(TOPIC, batch("b", at=TIME + 1_000)))
    second.produce("the second producer once more", 0)
    second.end("the second one is aborted", commit=False)
    first.produce("the first producer again", 0)
    first.end("the first one is committed")
    last.produce("a transaction that stays open", 0)
    transcript.request_unrecorded("Produce", 9, produce(TOPIC, batch("c", at=TIME + 2_000)))
    return last


def read(transcript: Transcript, title: str, *offsets: int, version: int = 11) -> None:
    for offset in offsets:
        for name, level in (("uncommitted", 0), ("committed", READ_COMMITTED)):
            request = fetch(TOPIC, partition(offset), isolation_level=level)
            heading = f"{title}, from offset {offset}, read_{name}"
            transcript.request(heading, "Fetch", version, request)


def fetches(transcript: Transcript, topic_id: bytes) -> None:
    committed = {"isolation_level": READ_COMMITTED}
    for version in range(4, NEWEST_FETCH + 1):
        topic = TOPIC if version <= BY_NAME else topic_id
        request = fetch(topic, partition(0), **committed)
        transcript.request("read_committed", "Fetch", version, request)
    read(transcript, "an open transaction", 0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11)
    for size in (1, 140, 280):
        request = fetch(TOPIC, partition(0, size=size), **committed)
        transcript.request(f"read_committed, {size} bytes", "Fetch", 11, request)
    both = fetch(TOPIC, partition(0), partition(index=1), **committed)
    transcript.request("with a partition without transactions", "Fetch", 11, both)
    request = fetch(TOPIC, partition(4), isolation_level=NO_LEVEL)
    transcript.request(
        "an isolation level that does not exist", "Fetch", 11, request, differs=NO_SUCH_LEVEL
    )


def lists(transcript: Transcript) -> None:
    for version in range(2, NEWEST_LIST + 1):
        request = listing(TOPIC, at(LATEST), isolation_level=READ_COMMITTED)
        transcript.request("the latest offset, read_committed", "ListOffsets", version, request)
    latest(transcript)
    for timestamp, name in SPECIAL.items():
        request = listing(TOPIC, at(timestamp), isolation_level=READ_COMMITTED)
        transcript.request(f"{name}, read_committed", "ListOffsets", 11, request)
    for offset in (0, 1_000, 1_001, 2_000, 2_001):
        for level in (0, READ_COMMITTED):
            request = listing(TOPIC, at(TIME + offset), isolation_level=level)
            transcript.request(f"{offset} ms after the first record", "ListOffsets", 7, request)
    request = listing(TOPIC, at(LATEST), isolation_level=NO_LEVEL)
    title = "an isolation level that does not exist"
    differs = Differs(KAFKA_FAILS, {"topics.0.partitions.0.error_code": "INVALID_REQUEST"})
    transcript.request(title, "ListOffsets", 7, request, differs=differs)


def latest(transcript: Transcript) -> None:
    for level in (0, READ_COMMITTED):
        request = listing(TOPIC, at(LATEST), at(LATEST, 1), isolation_level=level)
        transcript.request("the latest offsets", "ListOffsets", 7, request)


def described(transcript: Transcript, title: str) -> None:
    fields = {"topics": [{"name": TOPIC, "partition_indexes": [0, 1]}]}
    transcript.request(title, "DescribeProducers", 0, fields, keep=in_order)


def deleted_records(transcript: Transcript) -> None:
    """The first aborted transaction is cut in the middle, then removed."""

    def delete(offset: int) -> None:
        up_to: list[dict[str, Any]] = [{"partition_index": 0, "offset": offset}]
        topics = [{"name": TOPIC, "partitions": up_to}]
        fields = {"topics": topics, "timeout_ms": 10_000}
        transcript.request("records are deleted", "DeleteRecords", 2, fields)

    for offset in (2, 6):
        delete(offset)
        read(transcript, "after the deletion", offset)
        described(transcript, "after the deletion")
