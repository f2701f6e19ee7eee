"""Requests while the end of a transaction is decided and its markers are not all written.

A marker with a high coordinator epoch makes the partition refuse those of the coordinator, so the
transaction stays in PrepareCommit or PrepareAbort for the whole scenario.
"""

from typing import Any

from transcripts.scenarios.group_members import commit_fields, wait_for_coordinator
from transcripts.scenarios.transactional_producer import (
    TransactionalProducer,
    wait_for_transactions,
)
from transcripts.transcript import Transcript

TOPIC = "concurrent"
GROUP = "concurrent-group"
LATER_COORDINATOR = 1_000


def run(transcript: Transcript) -> None:
    wait_for_transactions(transcript)
    wait_for_coordinator(transcript, GROUP)
    transcript.create_topic(TOPIC, 3)
    for commit in (True, False):
        producer = prepared(transcript, "newer", commit=commit, is_old=False)
        additions(transcript, producer, version=12)
        ends(producer, commit=commit, version=5)
        initializations(producer)
        older = prepared(transcript, "older", commit=commit, is_old=True)
        additions(transcript, older, version=11)
        ends(older, commit=commit, version=4)
        initializations(older)
    fenced(transcript)


def prepared(
    transcript: Transcript, name: str, *, commit: bool, is_old: bool
) -> TransactionalProducer:
    """A producer whose transaction stays prepared."""
    decision = "commit" if commit else "abort"
    producer = TransactionalProducer(transcript, f"{name}-{decision}", TOPIC)
    producer.init("a transactional id")
    if is_old:
        producer.add("a partition", 0)
    producer.produce("a batch", 0, version=11 if is_old else 12)
    refuse_markers(transcript, producer)
    version = 4 if is_old else 5
    producer.end(f"the {decision}", commit=commit, version=version, follow=False, settles=False)
    producer.describe(f"a prepared {decision}")
    return producer


def refuse_markers(transcript: Transcript, producer: TransactionalProducer) -> None:
    marker = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "coordinator_epoch": LATER_COORDINATOR,
        "topics": [{"name": TOPIC, "partition_indexes": [0]}],
    }
    title = "a marker of a later coordinator"
    transcript.request(title, "WriteTxnMarkers", 2, {"markers": [marker]})


def additions(transcript: Transcript, producer: TransactionalProducer, version: int) -> None:
    """What a producer sends when it begins its next transaction."""
    for next_epoch in (0, 1):
        epoch = producer.epoch + next_epoch
        title = f"in epoch {epoch}"
        for produced in (10, 11, 12) if version > 11 else (10, 11):
            producer.produce(f"a batch {title}", 0, version=produced, epoch=epoch)
            producer.produce(f"another partition {title}", 1, version=produced, epoch=epoch)
        producer.add(f"another partition {title}", 1, producer_epoch=epoch)
        own = {
            "transactional_id": producer.transactional_id,
            "producer_id": producer.producer_id,
            "producer_epoch": epoch,
        }
        topics = [{"name": TOPIC, "partitions": [0, 1]}]
        for verify in (True, False):
            wanted: dict[str, Any] = {**own, "topics": topics, "verify_only": verify}
            fields = {"transactions": [wanted]}
            transcript.request(f"a broker {title}", "AddPartitionsToTxn", 5, fields)
        fields = {**own, "group_id": GROUP}
        transcript.request(f"a group {title}", "AddOffsetsToTxn", 4, fields)
        for committed in (3, 4, 5):
            fields = {**own, **commit_fields(GROUP, TOPIC, {0: 1})}
            transcript.request(f"an offset {title}", "TxnOffsetCommit", committed, fields)


def ends(producer: TransactionalProducer, *, commit: bool, version: int) -> None:
    def end(title: str, epoch: int, *, commits: bool = commit, version: int = version) -> None:
        fields = {"follow": False, "settles": False, "producer_epoch": epoch}
        producer.end(title, commit=commits, version=version, **fields)

    end("the retry", producer.epoch)
    end("the opposite", producer.epoch, commits=not commit)
    end("in the next epoch", producer.epoch + 1)
    end("in the next epoch but one", producer.epoch + 2)
    end("in the other protocol", producer.epoch, version=9 - version)


def initializations(producer: TransactionalProducer) -> None:
    for version in (0, 4, 5):
        producer.init("another producer", version)
    own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    producer.init("the producer itself", 4, **own)
    producer.init("in an epoch of the future", 4, **{**own, "producer_epoch": producer.epoch + 5})
    producer.describe("still prepared")


def fenced(transcript: Transcript) -> None:
    """The transaction of a fenced producer cannot be aborted."""
    old = TransactionalProducer(transcript, "fenced", TOPIC)
    new = TransactionalProducer(transcript, "fenced", TOPIC)
    old.init("a producer")
    old.produce("a batch", 0)
    refuse_markers(transcript, old)
    new.init("another producer with its transactional id")
    new.describe("a prepared abort")
    new.init("its retry")
    old.produce("the first one writes", 0)
    old.produce("the first one writes to another partition", 1)
    fields = {"follow": False, "settles": False}
    old.end("the first one commits", **fields)
    old.end("the first one aborts", commit=False, **fields)
    old.end("the first one aborts in an older version", commit=False, version=4, **fields)
