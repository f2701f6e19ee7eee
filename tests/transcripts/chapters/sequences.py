"""InitProducerId and the sequences of idempotent producers."""

from typing import Any

from transcripts.chapters.requests import batch, errors_start_anywhere, produce
from transcripts.dialogue import Dialogue, Differs

UNKNOWN_PRODUCER = 9_000_000_001
LAST_SEQUENCE = 0x7FFFFFFF
NOT_YET = Differs("Sawlog has no transactions yet", {"error_code": "INVALID_REQUEST"})


def chapter(talk: Dialogue) -> None:
    anonymous = {"transactional_id": None}
    talk.wait(lambda: talk.quietly("InitProducerId", 4, anonymous).error_code == 0)
    for version in range(6):
        talk.ask("an id", "InitProducerId", version, {"transactional_id": None})
    for timeout in (-1, 0, 1_000_000_000):
        fields = {"transactional_id": None, "transaction_timeout_ms": timeout}
        talk.ask(f"an id, time-out {timeout}", "InitProducerId", 4, fields)
    held = {"transactional_id": None, "producer_id": UNKNOWN_PRODUCER, "producer_epoch": 3}
    talk.ask("an id for one that has one", "InitProducerId", 4, held)
    held["producer_epoch"] = -1
    talk.ask("an id for one that has one, without epoch", "InitProducerId", 4, held)
    held = {"transactional_id": None, "producer_id": -1, "producer_epoch": 3}
    talk.ask("an epoch without an id", "InitProducerId", 4, held)
    talk.ask("an empty transactional id", "InitProducerId", 4, {"transactional_id": ""})
    sequences(talk)
    epochs(talk)
    wrapping(talk)
    strangers(talk)
    transactional(talk)


class Producer:
    """One idempotent producer's requests to one topic."""

    def __init__(self, talk: Dialogue, topic: str) -> None:
        self._talk = talk
        self._topic = topic
        answer = talk.quietly("InitProducerId", 4, {"transactional_id": None})
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
        keep = errors_start_anywhere
        self._talk.ask(title, "Produce", version, request, keep=keep, differs=differs)


def sequences(talk: Dialogue) -> None:
    talk.create("sequences", 2)
    producer = Producer(talk, "sequences")
    for version in (3, 9, 12):
        first = 10 * version
        new = Producer(talk, "sequences")
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


def epochs(talk: Dialogue) -> None:
    talk.create("sequences-epochs")
    producer = Producer(talk, "sequences-epochs")
    producer.send("epoch 0", 0)
    producer.send("epoch 2, not from zero", 1, epoch=2)
    producer.send("epoch 2, from zero", 0, epoch=2)
    producer.send("epoch 1, which is over", 0, epoch=1)
    producer.send("epoch 0, which is over", 1, epoch=0)
    producer.send("epoch 2, goes on", 1, epoch=2)
    producer.send("an epoch below zero", 0, epoch=-1)
    for version in (3, 12):
        producer.send("an epoch that is over, other versions", 1, epoch=0, version=version)


def wrapping(talk: Dialogue) -> None:
    talk.create("sequences-end")
    producer = Producer(talk, "sequences-end")
    producer.send("a new one that begins at the end", LAST_SEQUENCE - 1, "a", "b")
    producer.send("and goes on from zero", 0, "c")
    producer.send("the end again", LAST_SEQUENCE - 1, "a", "b")
    over = Producer(talk, "sequences-end")
    over.send("a batch over the end", LAST_SEQUENCE, "a", "b", "c")
    over.send("and goes on", 2, "d")


def strangers(talk: Dialogue) -> None:
    talk.create("sequences-strangers")
    stranger = Producer(talk, "sequences-strangers")
    stranger.producer_id = UNKNOWN_PRODUCER
    stranger.send("an id that nobody gave, not from zero", 5)
    stranger.send("and goes on", 6)
    stranger.producer_id = UNKNOWN_PRODUCER + 1
    stranger.send("an id that nobody gave, from zero", 0)
    stranger.send("a later epoch of it", 0, epoch=7)


def transactional(talk: Dialogue) -> None:
    """Last, because here Sawlog says no for good until it has transactions."""
    talk.create("sequences-transactional")
    fields: dict[str, Any] = {"transactional_id": "t", "transaction_timeout_ms": 60_000}
    for version in (0, 2, 4, 5):
        talk.ask("a transactional id", "InitProducerId", version, fields, differs=NOT_YET)
