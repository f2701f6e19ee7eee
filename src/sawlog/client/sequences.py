"""Who an idempotent producer is, and the number of its next record in each partition.

A batch keeps its numbers through all its tries. Where one fails for good there is a hole that the
broker would not accept; then nothing new is numbered until all that was numbered has an outcome,
and a new identity starts from 0.
"""

from collections import defaultdict
from typing import NamedTuple

from sawlog.client.cluster import Cluster
from sawlog.client.errors import refusal
from sawlog.core.ids import TopicPartition
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.init_producer_id_response import InitProducerIdResponse

_SEQUENCES = 1 << 31
_NOT_TRANSACTIONAL_TIMEOUT_MS = 60_000  # without meaning, but Kafka wants it positive


class Stamp(NamedTuple):
    """What goes into a batch's header."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


UNNUMBERED = Stamp(-1, -1, -1)


class Sequences:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._identity: tuple[int, int] | None = None
        self._next: dict[TopicPartition, int] = defaultdict(int)
        self._outstanding = 0
        self._has_hole = False

    @property
    def can_number(self) -> bool:
        """False while a hole waits for older batches to get their outcome."""
        return not (self._has_hole and self._outstanding)

    def number(self, partition: TopicPartition, count: int) -> Stamp:
        """Numbers for the next `count` records; asks for an identity where there is none."""
        if self._has_hole:
            self._identity = None
            self._next.clear()
            self._has_hole = False
        if self._identity is None:
            self._identity = self._ask_for_identity()
        first = self._next[partition]
        self._next[partition] = (first + count) % _SEQUENCES
        self._outstanding += 1
        return Stamp(*self._identity, first)

    def ended(self, *, was_delivered: bool) -> None:
        """A numbered batch has its outcome."""
        self._outstanding -= 1
        self._has_hole = self._has_hole or not was_delivered

    def _ask_for_identity(self) -> tuple[int, int]:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_NOT_TRANSACTIONAL_TIMEOUT_MS
        )

        def attempt() -> tuple[int, int]:
            answer = self._cluster.any_connection().request(request, InitProducerIdResponse)
            if answer.error_code:
                raise refusal(answer.error_code, "the broker gave no producer id")
            return answer.producer_id, answer.producer_epoch

        return self._cluster.retry(attempt)
