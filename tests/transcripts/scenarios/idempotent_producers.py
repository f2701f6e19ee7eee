"""InitProducerId and the sequences of idempotent producers."""

from typing import Any

from transcripts.scenarios.produce_requests import batch, produce, without_error_start_offsets
from transcripts.steps import Differs
from transcripts.transcript import Transcript

UNKNOWN_PRODUCER = 9_000_000_001
LAST_SEQUENCE = 0x7FFFFFFF


def run(transcript: Transcript) -> None:
    anonymous = {"transactional_id": None}
    transcript.wait_until(
        lambda: transcript.request_unrecorded("InitProducerId", 4, anonymous).error_code == 0
    )
    for version in range(6):
        transcript.request(
            "a new producer id", "InitProducerId", version, {"transactional_id": None}
        )
    for timeout in (-1, 0, 1_000_000_000):
        fields = {"transactional_id": None, "transaction_timeout_ms": timeout}
        transcript.request(f"a new producer id, timeout {timeout}", "InitProducerId", 4, fields)
    held = {"transactional_id": None, "producer_id": UNKNOWN_PRODUCER, "producer_epoch": 3}
    transcript.request("a producer id for an existing id", "InitProducerId", 4, held)
    held["producer_epoch"] = -1
    transcript.request(
        "a producer id for an existing id, without an epoch", "InitProducerId", 4, held
    )
    held = {"transactional_id": None, "producer_id": -1, "producer_epoch": 3}
    transcript.request("an epoch without a producer id", "InitProducerId", 4, held)
    transcript.request("an empty transactional id", "InitProducerId", 4, {"transactional_id": ""})
    sequences(transcript)
    epochs(transcript)
    wraparound(transcript)
    unassigned_ids(transcript)
    transactional(transcript)


class Producer:
    """An idempotent producer that sends to one topic."""

    def __init__(self, transcript: Transcript, topic: str) -> None:
        self._transcript = transcript
        self._topic = topic
        answer = transcript.request_unrecorded("InitProducerId", 4, {"transactional_id": None})
        self.producer_id: int = answer.producer_id
        self.epoch = 0

    def send(
        self,
        title: str,
        sequence: int,
        *values: str,
        version: int = 9,
        epoch: int | None = None,
        partition: int = 0,
        differs: Differs | None = None,
    ) -> None:
        records = batch(
            *(values or ("a",)),
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
        )
        request = produce(self._topic, records, partition)
        keep = without_error_start_offsets
        self._transcript.request(title, "Produce", version, request, keep=keep, differs=differs)


def sequences(transcript: Transcript) -> None:
    transcript.create_topic("sequences", 2)
    producer = Producer(transcript, "sequences")
    for version in (3, 9, 12):
        first = 10 * version
        new = Producer(transcript, "sequences")
        new.send("the first batch", 0, "a", "b", version=version)
        new.send("a duplicate", 0, "a", "b", version=version)
        new.send("the next batch", 2, version=version)
        new.send("a sequence far ahead", first, version=version)
    producer.send("the first batch", 0, "a", "b", "c")
    producer.send("a part of the first batch", 0, "a")
    producer.send("the middle of the first batch", 1, "b")
    producer.send("the end of the first batch", 2, "c")
    producer.send("the next batch", 3)
    producer.send("a duplicate of the first batch", 0, "a", "b", "c")
    producer.send("a gap of one", 5)
    producer.send("the batch that was left out", 4)
    for sequence in range(5, 10):
        producer.send(f"sequence {sequence}", sequence)
    producer.send("a duplicate of the fifth last batch", 5)
    producer.send("a duplicate of the sixth last batch", 4)
    producer.send("a duplicate of the very first batch", 0, "a", "b", "c")
    producer.send("another partition, another sequence", 10, partition=1)
    producer.send("another partition, sequence zero", 0, partition=1)
    producer.send("without a sequence", -1)


def epochs(transcript: Transcript) -> None:
    transcript.create_topic("sequences-epochs")
    producer = Producer(transcript, "sequences-epochs")
    producer.send("epoch 0", 0)
    producer.send("epoch 2, another sequence", 1, epoch=2)
    producer.send("epoch 2, sequence zero", 0, epoch=2)
    producer.send("epoch 1, which is fenced", 0, epoch=1)
    producer.send("epoch 0, which is fenced", 1, epoch=0)
    producer.send("epoch 2, next sequence", 1, epoch=2)
    producer.send("a negative epoch", 0, epoch=-1)
    for version in (3, 12):
        producer.send("a fenced epoch, other versions", 1, epoch=0, version=version)


def wraparound(transcript: Transcript) -> None:
    transcript.create_topic("sequences-end")
    producer = Producer(transcript, "sequences-end")
    producer.send("a new producer at the last sequence", LAST_SEQUENCE - 1, "a", "b")
    producer.send("the next sequence, zero", 0, "c")
    producer.send("a duplicate of the last sequences", LAST_SEQUENCE - 1, "a", "b")
    over = Producer(transcript, "sequences-end")
    over.send("a batch that wraps around", LAST_SEQUENCE, "a", "b", "c")
    over.send("the next sequence", 2, "d")


def unassigned_ids(transcript: Transcript) -> None:
    transcript.create_topic("sequences-strangers")
    stranger = Producer(transcript, "sequences-strangers")
    stranger.producer_id = UNKNOWN_PRODUCER
    stranger.send("an unassigned producer id, another sequence", 5)
    stranger.send("the next sequence", 6)
    stranger.producer_id = UNKNOWN_PRODUCER + 1
    stranger.send("an unassigned producer id, sequence zero", 0)
    stranger.send("a later epoch of that id", 0, epoch=7)


def transactional(transcript: Transcript) -> None:
    """Without a coordinator of transactions; `transactions` has the others."""
    transcript.create_topic("sequences-transactional")
    fields: dict[str, Any] = {"transactional_id": "t", "transaction_timeout_ms": 60_000}
    for version in (0, 2, 4, 5):
        transcript.request("a transactional id", "InitProducerId", version, fields)
