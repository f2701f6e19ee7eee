"""Transactions of clients without transaction.version 2: they add partitions themselves, and the
epoch stays the same."""

from typing import Any

from transcripts.scenarios.transactional_producer import (
    TransactionalProducer,
    wait_for_transactions,
)
from transcripts.transcript import Transcript

UNKNOWN_PRODUCER = 9_000_000_001
TOPIC = "transactions-older"


def run(transcript: Transcript) -> None:
    wait_for_transactions(transcript)
    transcript.create_topic(TOPIC, 3)
    every_version(transcript)
    unverified(transcript)
    wrong_additions(transcript)
    offsets(transcript)
    repeated_ends(transcript)


def every_version(transcript: Transcript) -> None:
    producer = TransactionalProducer(transcript, "older", TOPIC)
    producer.init("a transactional id", 2)
    for version in range(4):
        producer.add("a partition", 0, version=version)
        producer.describe("an open transaction")
        producer.produce("a batch", 0, version=7)
        producer.end("commit", version=version)
        producer.describe("a committed transaction")
    producer.add("two partitions", 0, 1)
    producer.produce("a batch", 0, version=11)
    producer.end("abort", commit=False, version=4)
    producer.describe("an aborted transaction")


def unverified(transcript: Transcript) -> None:
    """Batches for partitions that were not added."""
    producer = TransactionalProducer(transcript, "older-unverified", TOPIC)
    producer.init("a transactional id")
    for version in (7, 10, 11):
        producer.produce("before the transaction", 0, version=version)
    producer.add("a partition", 1)
    for version in (7, 10, 11):
        producer.produce("a partition that was not added", 0, version=version)
        producer.produce("with one that was", 1, 0, version=version)
    producer.end("abort", commit=False, version=4)
    for version in (10, 11):
        producer.produce("after the transaction", 1, version=version)


def wrong_additions(transcript: Transcript) -> None:
    producer = TransactionalProducer(transcript, "older-wrong", TOPIC)
    producer.init("a transactional id")
    for version in (1, 2, 3):
        producer.add("another epoch", 0, version=version, producer_epoch=5)
    producer.add("another producer", 0, producer_id=UNKNOWN_PRODUCER)
    producer.add("an unknown transactional id", 0, transactional_id="never")
    producer.add("an empty transactional id", 0, transactional_id="")
    producer.add("a partition that does not exist", 9, 0)
    producer.add("a topic that does not exist", 0, topic="no-such-topic")
    producer.add("no partitions")
    producer.describe("nothing was added")


def offsets(transcript: Transcript) -> None:
    producer = TransactionalProducer(transcript, "older-offsets", TOPIC)
    producer.init("a transactional id")
    own: dict[str, Any] = {
        "transactional_id": "older-offsets",
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "group_id": "older-group",
    }
    for version in range(5):
        transcript.request("a group", "AddOffsetsToTxn", version, own)
    other = {**own, "producer_epoch": 9}
    for version in (1, 2):
        transcript.request("another epoch", "AddOffsetsToTxn", version, other)
    transcript.request(
        "another producer", "AddOffsetsToTxn", 3, {**own, "producer_id": UNKNOWN_PRODUCER}
    )
    transcript.request("an unknown id", "AddOffsetsToTxn", 3, {**own, "transactional_id": "never"})
    transcript.request("an empty id", "AddOffsetsToTxn", 3, {**own, "transactional_id": ""})
    transcript.request("an empty group", "AddOffsetsToTxn", 3, {**own, "group_id": ""})


def repeated_ends(transcript: Transcript) -> None:
    producer = TransactionalProducer(transcript, "older-ends", TOPIC)
    producer.init("a transactional id")
    for commit in (True, False):
        producer.end("no transaction yet", commit=commit, version=4)
    for commit in (True, False):
        producer.add("a partition", 0)
        producer.produce("a batch", 0, version=11)
        producer.end("the end", commit=commit, version=4)
        producer.end("its retry", commit=commit, version=4)
        producer.end("the opposite", commit=not commit, version=4)
        for version in (1, 2):
            producer.end("another epoch", commit=commit, version=version, producer_epoch=7)
    producer.end("another producer", version=4, producer_id=UNKNOWN_PRODUCER)
    producer.end("an unknown transactional id", version=4, transactional_id="never")
