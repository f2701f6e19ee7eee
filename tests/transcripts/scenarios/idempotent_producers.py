"""InitProducerId and the sequences of idempotent producers."""

from typing import Any

from transcripts.scenarios.produce_requests import batch, produce, without_error_start_offsets
from transcripts.steps import Differs
from transcripts.transcript import Transcript

UNKNOWN_PRODUCER = 9_000_000_001
LAST_SEQUENCE = 0x7FFFFFFF
NOT_YET = Differs("Sawlog has no transactions yet", {"error_code": "INVALID_REQUEST"})


def run(transcript: Transcript) -> None:
    anonymous = {"transactional_id": None}
    transcript.wait_until(
        lambda: transcript.request_unrecorded("InitProducerId", 4, anonymous).error_code == 0
    )
    for version in range(6):
        transcript.request("an id", "InitProducerId", version, {"transactional_id": None})
    for timeout in (-1, 0, 1_000_000_000):
        fields = {"transactional_id": None, "transaction_timeout_ms": timeout}
        transcript.request(f"an id, time-out {timeout}", "InitProducerId", 4, fields)
    held = {"transactional_id": None, "producer_id": UNKNOWN_PRODUCER, "producer_epoch": 3}
    transcript.request("an id for one that has one", "InitProducerId", 4, held)
    held["producer_epoch"] = -1
    transcript.request("an id for one that has one, without epoch", "InitProducerId", 4, held)
    held = {"transactional_id": None, "producer_id": -1, "producer_epoch": 3}
    transcript.request("an epoch without an id", "InitProducerId", 4, held)
    transcript.request("an empty transactional id", "InitProducerId", 4, {"transactional_id": ""})
    sequences(transcript)
    epochs(transcript)
    wrapping(transcript)
    strangers(transcript)
    transactional(transcript)


class Producer:
    """One idempotent producer's requests to one topic."""

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
        new.send("the first", 0, "a", "b", version=version)
        new.send("the same again", 0, "a", "b", version=version)
        new.send("the next", 2, version=version)
        new.send("one too far", first, version=version)
    producer.send("the first", 0, "a", "b", "c")
    producer.send("a part of the first", 0, "a")
    producer.send("the middle of the first", 1, "b")
    producer.send("the end of the first", 2, "c")
    producer.send("the next", 3)
    producer.send("the first, again", 0, "a", "b", "c")
    producer.send("one left out", 5)
    producer.send("the next after all", 4)
    for sequence in range(5, 10):
        producer.send(f"number {sequence}", sequence)
    producer.send("the fifth last, again", 5)
    producer.send("the sixth last, again", 4)
    producer.send("the very first, again", 0, "a", "b", "c")
    producer.send("in another partition, not from zero", 10, partition=1)
    producer.send("in another partition, from zero", 0, partition=1)
    producer.send("without a sequence", -1)


def epochs(transcript: Transcript) -> None:
    transcript.create_topic("sequences-epochs")
    producer = Producer(transcript, "sequences-epochs")
    producer.send("epoch 0", 0)
    producer.send("epoch 2, not from zero", 1, epoch=2)
    producer.send("epoch 2, from zero", 0, epoch=2)
    producer.send("epoch 1, which is over", 0, epoch=1)
    producer.send("epoch 0, which is over", 1, epoch=0)
    producer.send("epoch 2, goes on", 1, epoch=2)
    producer.send("an epoch below zero", 0, epoch=-1)
    for version in (3, 12):
        producer.send("an epoch that is over, other versions", 1, epoch=0, version=version)


def wrapping(transcript: Transcript) -> None:
    transcript.create_topic("sequences-end")
    producer = Producer(transcript, "sequences-end")
    producer.send("a new one that begins at the end", LAST_SEQUENCE - 1, "a", "b")
    producer.send("and goes on from zero", 0, "c")
    producer.send("the end again", LAST_SEQUENCE - 1, "a", "b")
    over = Producer(transcript, "sequences-end")
    over.send("a batch over the end", LAST_SEQUENCE, "a", "b", "c")
    over.send("and goes on", 2, "d")


def strangers(transcript: Transcript) -> None:
    transcript.create_topic("sequences-strangers")
    stranger = Producer(transcript, "sequences-strangers")
    stranger.producer_id = UNKNOWN_PRODUCER
    stranger.send("an id that nobody gave, not from zero", 5)
    stranger.send("and goes on", 6)
    stranger.producer_id = UNKNOWN_PRODUCER + 1
    stranger.send("an id that nobody gave, from zero", 0)
    stranger.send("a later epoch of it", 0, epoch=7)


def transactional(transcript: Transcript) -> None:
    """Last, because here Sawlog says no for good until it has transactions."""
    transcript.create_topic("sequences-transactional")
    fields: dict[str, Any] = {"transactional_id": "t", "transaction_timeout_ms": 60_000}
    for version in (0, 2, 4, 5):
        transcript.request("a transactional id", "InitProducerId", version, fields, differs=NOT_YET)
