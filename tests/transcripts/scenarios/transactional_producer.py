"""A transactional producer of a scenario: its requests, one step each."""

from typing import Any

from transcripts.scenarios.produce_requests import batch, data, without_error_start_offsets
from transcripts.transcript import Transcript

TRANSACTION = 1
NOT_AVAILABLE = 15
TIMEOUT_MS = 60_000
FIRST_VERSION_WITH_TOPIC_IDS = 13


def wait_for_transactions(transcript: Transcript) -> None:
    """Wait until the broker coordinates transactions; Kafka then creates its topic."""
    fields = {"transactional_id": "transactions-wait", "transaction_timeout_ms": TIMEOUT_MS}
    find = {"key": "transactions-wait", "key_type": TRANSACTION}

    def is_ready() -> bool:
        transcript.request_unrecorded("FindCoordinator", 2, find)
        return bool(transcript.request_unrecorded("InitProducerId", 4, fields).error_code == 0)

    transcript.wait_until(is_ready)


class TransactionalProducer:
    """Keeps the producer id and epoch that the broker gave it, and the next sequences."""

    def __init__(
        self,
        transcript: Transcript,
        transactional_id: str,
        topic: str,
        topic_id: bytes | None = None,
    ) -> None:
        self._transcript = transcript
        self.transactional_id = transactional_id
        self._topic = topic
        self._topic_id = topic_id
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[int, int] = {}

    def init(self, title: str, version: int = 5, **fields: Any) -> Any:
        request = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": TIMEOUT_MS,
            **fields,
        }
        answer = self._transcript.request(title, "InitProducerId", version, request)
        if answer.error_code == 0:
            self._become(answer.producer_id, answer.producer_epoch)
        return answer

    def _become(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self._sequences.clear()

    def produce(
        self,
        title: str,
        *partitions: int,
        version: int = 12,
        epoch: int | None = None,
        sequence: int | None = None,
        **fields: Any,
    ) -> None:
        """Send one record to each partition. Only a success moves the sequence on."""
        epoch = self.epoch if epoch is None else epoch
        batches = [(index, self._batch(epoch, index, sequence)) for index in partitions]
        topic: str | bytes = self._topic
        if version >= FIRST_VERSION_WITH_TOPIC_IDS and self._topic_id is not None:
            topic = self._topic_id
        request = {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [data(topic, *batches)],
            **fields,
        }
        keep = without_error_start_offsets
        answer = self._transcript.request(title, "Produce", version, request, keep=keep)
        for each in answer.responses[0].partition_responses:
            if each.error_code == 0:
                self._sequences[each.index] = self._sequences.get(each.index, 0) + 1

    def _batch(self, epoch: int, index: int, sequence: int | None) -> bytes:
        return batch(
            "a",
            producer_id=self.producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences.get(index, 0) if sequence is None else sequence,
            transactional=True,
        )

    def add(
        self, title: str, *partitions: int, version: int = 3, topic: str = "", **fields: Any
    ) -> None:
        """AddPartitionsToTxn as a client sends it."""
        wanted = [{"name": topic or self._topic, "partitions": list(partitions)}]
        request = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": self.producer_id,
            "v3_and_below_producer_epoch": self.epoch,
            "v3_and_below_topics": wanted,
            **{f"v3_and_below_{name}": value for name, value in fields.items()},
        }
        self._transcript.request(title, "AddPartitionsToTxn", version, request)

    def end(
        self,
        title: str,
        *,
        commit: bool = True,
        version: int = 5,
        follow: bool = True,
        settles: bool = True,
        **fields: Any,
    ) -> None:
        """End the transaction; with `follow` go on with the epoch of the response."""
        request = {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "committed": commit,
            **fields,
        }
        answer = self._transcript.request(title, "EndTxn", version, request)
        if answer.error_code == 0 and version >= 5 and follow:
            self._become(answer.producer_id, answer.producer_epoch)
        if settles:
            self.settle()

    def settle(self) -> None:
        """Wait until the markers are written: how long that takes is not recorded."""
        self._transcript.wait_until(lambda: not self._state().startswith("Prepare"))

    def wait_for_abort(self) -> None:
        """Wait until the coordinator has aborted the transaction after its timeout."""
        self._transcript.wait_until(lambda: self._state() == "CompleteAbort")

    def _state(self) -> str:
        fields = {"transactional_ids": [self.transactional_id]}
        answer = self._transcript.request_unrecorded("DescribeTransactions", 0, fields)
        return str(answer.transaction_states[0].transaction_state)

    def describe(self, title: str) -> None:
        fields = {"transactional_ids": [self.transactional_id]}
        self._transcript.request(title, "DescribeTransactions", 0, fields, keep=_ordered)


def _ordered(answer: dict[str, Any]) -> dict[str, Any]:
    """Partitions are in no order."""
    for transaction in answer["transaction_states"]:
        for topic in transaction["topics"]:
            topic["partitions"].sort()
    return answer
