"""Produce in transactions in every version, in mixed versions, and batches that are refused."""

from typing import Any

from transcripts.scenarios.list_offsets import at, listing
from transcripts.scenarios.produce_requests import batch, data, without_error_start_offsets
from transcripts.scenarios.transactional_producer import (
    TransactionalProducer,
    wait_for_transactions,
)
from transcripts.steps import Differs
from transcripts.transcript import Transcript

SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
TOPIC = "produced"
FIRST, LAST_OLD, NEWEST = 3, 11, 13
UNKNOWN_PRODUCER = 9_000_000_001
LATEST = -1
SHORT_MS = 500  # a busy broker needs a while from the begin of a transaction to its first batch
REFUSED_AT_ONCE = Differs(
    "Sawlog refuses the batch before it asks the coordinator",
    {"responses.0.partition_responses.0.error_code": "INVALID_RECORD"},
)


def run(transcript: Transcript) -> None:
    wait_for_transactions(transcript)
    topic_id = transcript.create_topic(TOPIC, 2)
    every_version(transcript, topic_id)
    mixed_versions(transcript)
    refused(transcript, topic_id)
    markers(transcript, topic_id)
    plain_batches(transcript)
    late_batches(transcript)


def latest(transcript: Transcript, title: str = "the ends of the partitions") -> None:
    request = listing(TOPIC, at(LATEST), at(LATEST, 1))
    transcript.request(title, "ListOffsets", 7, request)


def every_version(transcript: Transcript, topic_id: bytes) -> None:
    producer = TransactionalProducer(transcript, "versions", TOPIC, topic_id)
    producer.init("a transactional id")
    for version in range(FIRST, NEWEST + 1):
        is_old = version <= LAST_OLD
        if is_old:
            producer.add("a partition", 0)
        producer.produce("a batch", 0, version=version)
        producer.produce("the next one", 0, version=version)
        producer.produce("a sequence that is too high", 0, version=version, sequence=9)
        producer.end("the end", commit=version % 2 == 0, version=4 if is_old else 5)
    latest(transcript)


def mixed_versions(transcript: Transcript) -> None:
    producer = TransactionalProducer(transcript, "mixed", TOPIC)
    producer.init("a transactional id")
    producer.produce("added by a batch", 0, version=12)
    producer.produce("a batch of an older version", 0, version=11)
    producer.end("ended in an older version", version=4)
    producer.add("added by its client", 0, 1)
    producer.produce("a batch of a newer version", 0, version=12)
    producer.end("ended in a newer version", version=5)
    producer.add("added by its client", 0)
    producer.produce("a batch", 0, version=11)
    producer.produce("another partition is added", 1, version=12)
    producer.end("ended in a newer version", commit=False, version=5)
    producer.produce("added by a batch", 0, version=12)
    producer.end("ended in an older version", commit=False, version=3)
    producer.describe("after all")
    latest(transcript)


def refused(transcript: Transcript, topic_id: bytes) -> None:
    """Batches that the producer may not write: nothing is appended."""
    producer = TransactionalProducer(transcript, "refused", TOPIC)
    producer.init("a transactional id")
    own: dict[str, Any] = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "base_sequence": 0,
        "transactional": True,
    }
    foreign = {**own, "producer_id": UNKNOWN_PRODUCER}
    cases: list[tuple[str, str | None, bytes]] = [
        ("another producer id", "refused", batch("a", **foreign)),
        ("no producer id", "refused", batch("a", transactional=True)),
        ("a negative epoch", "refused", batch("a", **{**own, "producer_epoch": -1})),
        ("a stale epoch", "versions", batch("a", **own)),
        ("a transactional id without InitProducerId", "never", batch("a", **own)),
        ("no transactional id", None, batch("a", **own)),
        ("an empty transactional id", "", batch("a", **own)),
    ]
    for title, name, records in cases:
        for version in (9, 11, 12, NEWEST):
            topic = topic_id if version >= NEWEST else TOPIC
            request(transcript, title, version, name, data(topic, (0, records)))
    latest(transcript, "nothing is appended")
    producer.describe("nothing is added")


def request(
    transcript: Transcript,
    title: str,
    version: int,
    transactional_id: str | None,
    *topics: dict[str, Any],
    acks: int = -1,
    differs: Differs | None = None,
) -> None:
    fields = {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout_ms": 10_000,
        "topic_data": list(topics),
    }
    keep = without_error_start_offsets
    transcript.request(title, "Produce", version, fields, keep=keep, differs=differs)


def markers(transcript: Transcript, topic_id: bytes) -> None:
    """Control batches of a client: nothing is appended."""
    for number, version in enumerate((9, 11, 12, NEWEST)):
        producer = TransactionalProducer(transcript, f"marker-{version}", TOPIC)
        producer.init("a transactional id")
        own: dict[str, Any] = {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "transactional": True,
        }
        name = producer.transactional_id
        topic = topic_id if version >= NEWEST else TOPIC
        for title, sequence, control in (
            ("no sequence", -1, False),
            ("a marker", -1, True),
            ("a marker with a sequence", 0, True),
        ):
            records = batch("a", base_sequence=sequence, control=control, **own)
            differs = REFUSED_AT_ONCE if version <= LAST_OLD else None
            data_of = data(topic, (0, records))
            request(transcript, title, version, name, data_of, differs=differs)
        transaction = {
            "transaction_states.0.transaction_state": "Empty",
            "transaction_states.0.transaction_start_time_ms": -1,
            "transaction_states.0.topics": [],
        }
        fields = {"transactional_ids": [name]}
        differs = None if number < 2 else Differs(REFUSED_AT_ONCE.reason, transaction)
        title = "the transaction"
        transcript.request(title, "DescribeTransactions", 0, fields, differs=differs)
        records = batch("a", control=True, **own)
        title = "a marker without a transactional id"
        request(transcript, title, version, None, data(topic, (0, records)))
        records = batch("a", control=True)
        title = "a control batch without a transaction"
        request(transcript, title, version, None, data(topic, (0, records)))
    latest(transcript, "nothing is appended")


def plain_batches(transcript: Transcript) -> None:
    """Batches of a transactional producer outside its transaction, and other acks."""
    producer = TransactionalProducer(transcript, "plain", TOPIC)
    producer.init("a transactional id")
    own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    idempotent = data(TOPIC, (0, batch("a", base_sequence=0, **own)))
    request(transcript, "an idempotent batch", 12, "plain", idempotent)
    producer.produce("a transactional batch", 0, sequence=1)
    idempotent = data(TOPIC, (0, batch("a", base_sequence=2, **own)))
    request(transcript, "an idempotent batch in the transaction", 12, "plain", idempotent)
    leader_only = data(TOPIC, (0, batch("a", base_sequence=2, transactional=True, **own)))
    request(transcript, "acks=1", 12, "plain", leader_only, acks=1)
    producer.end("commit")
    latest(transcript)


def late_batches(transcript: Transcript) -> None:
    """Batches that arrive after their transaction has ended (KIP-890)."""
    for version in (LAST_OLD, 10, 12):
        is_old = version <= LAST_OLD
        producer = TransactionalProducer(transcript, f"late-{version}", TOPIC)
        producer.init("a short timeout", transaction_timeout_ms=SHORT_MS)
        if is_old:
            producer.add("a partition", 0)
        producer.produce("a batch", 0, version=version)
        producer.wait_for_abort()
        producer.describe("the transaction has timed out")
        producer.produce("a late batch", 0, version=version)
        producer.produce("a late batch for another partition", 1, version=version)
        producer.produce("a late batch in the fencing epoch", 1, version=version, epoch=1)
        producer.add("a late partition", 0)
        producer.end("a late commit", version=4 if is_old else 5)
        producer.end("a late abort", commit=False, version=4 if is_old else 5)
        producer.wait_for_abort()  # a batch of version 12 begins a transaction
        producer.describe("no transaction is open")
    aborted = TransactionalProducer(transcript, "late-aborted", TOPIC)
    aborted.init("a transactional id")
    aborted.add("a partition", 0)
    aborted.produce("a batch", 0, version=LAST_OLD)
    aborted.end("abort", commit=False, version=4)
    for version in (9, 10, LAST_OLD):
        aborted.produce("a late batch", 0, version=version)
    latest(transcript, "nothing is appended after the markers")
