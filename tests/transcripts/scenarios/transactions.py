"""Transactions of clients with transaction.version 2: partitions are added by producing, and the
epoch goes up with every transaction (KIP-890)."""

from typing import Any

from transcripts.scenarios.produce_requests import batch, data, without_error_start_offsets
from transcripts.scenarios.transactional_producer import (
    TIMEOUT_MS,
    TransactionalProducer,
    wait_for_transactions,
)
from transcripts.script_client import KAFKA_FAILS
from transcripts.steps import Differs
from transcripts.transcript import Transcript

SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
UNKNOWN_PRODUCER = 9_000_000_001
TOPIC = "transactions"
NO_RESULTS = {"throttle_time_ms": 0, "error_code": "NONE", "results_by_transaction": []}


def run(transcript: Transcript) -> None:
    wait_for_transactions(transcript)
    transcript.create_topic(TOPIC, 3)
    initialization(transcript)
    commits_and_aborts(transcript)
    repeated_ends(transcript)
    fencing(transcript)
    foreign_producers(transcript)
    timeouts(transcript)
    markers(transcript)
    brokers(transcript)
    queries(transcript)


def initialization(transcript: Transcript) -> None:
    producer = TransactionalProducer(transcript, "init", TOPIC)
    for version in range(6):
        producer.init("a transactional id", version)
    for timeout in (0, -1, 900_001):
        producer.init(f"timeout {timeout}", 4, transaction_timeout_ms=timeout)
    producer.init("an empty transactional id", 4, transactional_id="")
    own, epoch = producer.producer_id, producer.epoch
    for version in (3, 4):
        producer.init(
            "an epoch that was never given", version, producer_id=own, producer_epoch=epoch + 5
        )
        producer.init("an earlier epoch", version, producer_id=own, producer_epoch=0)
        producer.init(
            "another producer id", version, producer_id=UNKNOWN_PRODUCER, producer_epoch=0
        )
    producer.init("a producer id without an epoch", 4, producer_id=own)
    producer.init("an epoch without a producer id", 4, producer_epoch=epoch)
    producer.init("the producer goes on", 4, producer_id=own, producer_epoch=epoch)
    producer.init("its retry", 4, producer_id=own, producer_epoch=epoch)
    producer.init("another producer", 4)
    producer.init("the first one once more", 4, producer_id=own, producer_epoch=epoch)
    new = TransactionalProducer(transcript, "init-new", TOPIC)
    new.init("an unknown id of a known producer", 4, producer_id=own, producer_epoch=3)


def commits_and_aborts(transcript: Transcript) -> None:
    producer = TransactionalProducer(transcript, "commits", TOPIC)
    producer.init("a transactional id")
    producer.describe("no transaction yet")
    producer.produce("the first batch", 0)
    producer.produce("two partitions, one of them new", 0, 1)
    producer.describe("an open transaction")
    producer.produce("a sequence that is too high", 0, sequence=9)
    producer.produce("a duplicate", 0, sequence=0)
    producer.end("commit")
    producer.describe("a committed transaction")
    producer.produce("the next transaction", 0)
    producer.produce("a partition that does not begin with sequence 0", 2, sequence=4)
    producer.end("abort", commit=False)
    producer.describe("an aborted transaction")
    producer.produce("the topic by its id needs version 13", 0, version=12)
    producer.end("commit once more")


def repeated_ends(transcript: Transcript) -> None:
    producer = TransactionalProducer(transcript, "ends", TOPIC)
    producer.init("a transactional id")
    producer.end("a commit without a transaction")
    producer.end("an abort without a transaction", commit=False)
    producer.end("another commit without a transaction")
    for commit in (True, False):
        producer.produce("a batch", 0)
        epoch = producer.epoch
        producer.end("the end", commit=commit)
        before = {"producer_epoch": epoch}
        producer.end("its retry", commit=commit, follow=False, **before)
        producer.end("the opposite", commit=not commit, follow=False, **before)
        producer.end("with the next epoch but one", commit=commit, producer_epoch=epoch + 2)
        producer.produce("the next transaction", 0)
        producer.end("a late retry (KAFKA-17754)", commit=commit, follow=False, **before)
        producer.describe("the next transaction is still open")
        producer.end("its end")
    producer.end("another producer id", producer_id=UNKNOWN_PRODUCER)
    producer.end("an unknown transactional id", transactional_id="never")
    producer.end("an empty transactional id", transactional_id="")


def fencing(transcript: Transcript) -> None:
    old = TransactionalProducer(transcript, "fencing", TOPIC)
    new = TransactionalProducer(transcript, "fencing", TOPIC)
    old.init("a producer")
    old.produce("its transaction", 0)
    new.init("another producer with its transactional id")
    new.settle()
    new.describe("the transaction of the first one is aborted")
    new.init("the retry")
    old.produce("the first one writes to the same partition", 0)
    old.produce("the first one writes to another partition", 1)
    old.produce("in an older version", 0, version=11)
    old.end("the first one commits")
    old.end("the first one commits, in an older version", version=4)
    old.end("the first one commits, in the oldest version", version=1)
    new.produce("the second one writes", 0)
    new.end("the second one commits")


def foreign_producers(transcript: Transcript) -> None:
    producer = TransactionalProducer(transcript, "foreign", TOPIC)
    producer.init("a transactional id")
    for version in (9, 11, 12):
        producer.produce(
            "an unknown transactional id", 0, version=version, transactional_id="never"
        )
        producer.produce("a higher epoch", 0, version=version, epoch=7)
        producer.produce("no transactional id", 0, version=version, transactional_id=None)
        producer.produce("an empty transactional id", 0, version=version, transactional_id="")
    own = producer.producer_id
    producer.producer_id = UNKNOWN_PRODUCER
    for version in (9, 11, 12):
        producer.produce("another producer id", 0, version=version)
    producer.producer_id = own
    mixed_batches(transcript, producer)


def mixed_batches(transcript: Transcript, producer: TransactionalProducer) -> None:
    own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    first = batch("a", base_sequence=0, transactional=True, **own)
    other = batch(
        "a", base_sequence=0, transactional=True, producer_id=UNKNOWN_PRODUCER, producer_epoch=0
    )
    control = batch("a", base_sequence=0, transactional=True, control=True, **own)
    cases: list[tuple[str, str | None, list[tuple[int, bytes | None]]]] = [
        ("two producers in one request", "foreign", [(0, first), (1, other)]),
        ("a plain batch with a transactional id", "foreign", [(0, batch("a"))]),
        ("a plain and a transactional batch, no id", None, [(0, batch("a")), (1, first)]),
        ("a marker from a client", "foreign", [(0, control)]),
        ("a plain and a transactional batch", "foreign", [(0, batch("a")), (1, first)]),
        (
            "a partition that does not exist",
            "foreign",
            [(9, batch("a", base_sequence=0, transactional=True, **own))],
        ),
    ]
    for title, name, batches in cases:
        fields = {
            "transactional_id": name,
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [data(TOPIC, *batches)],
        }
        keep = without_error_start_offsets
        transcript.request(title, "Produce", 12, fields, keep=keep)


def timeouts(transcript: Transcript) -> None:
    producer = TransactionalProducer(transcript, "timeouts", TOPIC)
    producer.init("a short timeout", transaction_timeout_ms=100)
    producer.produce("a batch", 0)
    producer.wait_for_abort()
    producer.describe("the transaction has timed out")
    producer.produce("the producer writes", 0)
    producer.produce("the producer writes to another partition", 1)
    producer.end("the producer commits")
    producer.init(
        "the producer goes on", producer_id=producer.producer_id, producer_epoch=producer.epoch
    )
    producer.init("the producer begins again")


def marker(producer: TransactionalProducer, **fields: Any) -> dict[str, Any]:
    topics = fields.pop("topics", [{"name": TOPIC, "partition_indexes": [0]}])
    own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    wanted = {"transaction_result": False, "coordinator_epoch": 0, "topics": topics}
    return {"markers": [{**own, **wanted, **fields}]}


def markers(transcript: Transcript) -> None:
    producer = TransactionalProducer(transcript, "markers", TOPIC)
    producer.init("a transactional id")
    producer.produce("a batch", 0)
    many = [
        {"name": TOPIC, "partition_indexes": [1, 9]},
        {"name": "no-such-topic", "partition_indexes": [0]},
    ]

    def write(title: str, version: int = 2, differs: Differs | None = None, **fields: Any) -> None:
        request = marker(producer, **fields)
        transcript.request(title, "WriteTxnMarkers", version, request, differs=differs)

    write("several partitions", topics=many)
    write("no partitions", topics=[])
    version_2 = {"transaction_version": 2}
    write("transaction.version 2 needs a higher epoch", **version_2)
    negative = {"markers.0.topics.0.partitions.0.error_code": "INVALID_PRODUCER_EPOCH"}
    write("a negative epoch", producer_epoch=-1, differs=Differs(KAFKA_FAILS, negative))
    write("the transaction's epoch, as an administrator sends it")
    write("once more")
    write("an earlier coordinator", coordinator_epoch=-1)
    write("in version 1", 1)
    producer.produce("another batch", 0)
    write("a higher epoch", producer_epoch=producer.epoch + 1, **version_2)
    write("its retry (KAFKA-19999)", producer_epoch=producer.epoch + 1, **version_2)
    write("an earlier epoch")
    write("an earlier epoch of transaction.version 2", **version_2)
    transcript.request("no markers", "WriteTxnMarkers", 2, {"markers": []})
    producer.end("the coordinator knows of no marker", commit=False)


def brokers(transcript: Transcript) -> None:
    """AddPartitionsToTxn as other brokers send it."""
    producer = TransactionalProducer(transcript, "brokers", TOPIC)
    producer.init("a transactional id")

    def wanted(*partitions: int, name: str = "brokers", **fields: Any) -> dict[str, Any]:
        return {
            "transactional_id": name,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "topics": [{"name": TOPIC, "partitions": list(partitions)}],
            **fields,
        }

    def add(title: str, *transactions: dict[str, Any], version: int = 5) -> None:
        fields = {"transactions": list(transactions)}
        transcript.request(title, "AddPartitionsToTxn", version, fields)

    add("verified before the transaction", wanted(0, verify_only=True))
    add("added", wanted(0))
    add("verified", wanted(0, 1, verify_only=True), version=4)
    add("a missing partition", wanted(0, 9))
    add("verified, another epoch", wanted(0, verify_only=True, producer_epoch=5))
    add("verified, another producer", wanted(0, verify_only=True, producer_id=UNKNOWN_PRODUCER))
    add("another epoch", wanted(1, producer_epoch=5))
    add("another producer", wanted(1, producer_id=UNKNOWN_PRODUCER))
    add("several transactions", wanted(1), wanted(0, name="never"))
    add("an empty id", wanted(1, name=""))
    add("no partitions", wanted())
    add("no partitions to verify", wanted(verify_only=True))
    transcript.request_unanswered_by_kafka(
        "no transactions",
        "AddPartitionsToTxn",
        5,
        {"transactions": []},
        Differs("Kafka's handler never answers; Sawlog has nothing to do", {"": NO_RESULTS}),
    )
    producer.end("commit")


def without_producers_of_errors(answer: dict[str, Any]) -> dict[str, Any]:
    """With an error the producer id is 0, which is a producer's in Kafka."""
    for each in answer["transaction_states"]:
        if each["error_code"] != "NONE":
            each["producer_id"] = "<any>"
    return answer


def queries(transcript: Transcript) -> None:
    known = {"transactional_ids": ["never", "", "commits"]}
    keep = without_producers_of_errors
    transcript.request("described", "DescribeTransactions", 0, known, keep=keep)
    transcript.request("none described", "DescribeTransactions", 0, {})
    producer = TransactionalProducer(transcript, "queries", TOPIC)
    producer.init("a transactional id", transaction_timeout_ms=TIMEOUT_MS)
    producer.produce("a batch", 0)
    ongoing = ["Ongoing"]

    def listed(title: str, version: int, **fields: Any) -> None:
        transcript.request(title, "ListTransactions", version, fields)

    for version in range(3):
        listed("open transactions", version, state_filters=ongoing)
    listed("an unknown state", 0, state_filters=["Ongoing", "nonsense", "ongoing"])
    listed("only unknown states", 0, state_filters=["nonsense"])
    listed("one producer", 0, producer_id_filters=[producer.producer_id, UNKNOWN_PRODUCER])
    listed("dead ones", 0, state_filters=["Dead"])
    listed("running for an hour", 1, state_filters=ongoing, duration_filter=3_600_000)
    listed("running for any time", 1, state_filters=ongoing, duration_filter=-1)
    for pattern in ("quer.*", "quer", "", None, "q(.*", "(?i)QUERIES"):
        listed(
            f"the pattern {pattern!r}", 2, transactional_id_pattern=pattern, state_filters=ongoing
        )
    producer.end("commit")
