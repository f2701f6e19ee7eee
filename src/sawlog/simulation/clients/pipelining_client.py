"""A transactional client with several Produce requests in flight, as real producers have them."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from sawlog.core.errors import ErrorCode
from sawlog.simulation.clients.transactional_client import (
    CRASH_SHARE,
    PRODUCE_VERSION_1,
    RETRIABLE,
    TransactionalClient,
    produce_code,
)
from sawlog.simulation.history.history import Write

MAX_IN_FLIGHT = 5
"""Of each partition: a broker recognises as many batches that are repeated."""

PAUSES_MS = (0, 0, 2, 5, 10)
"""Between two requests, so that some arrive while an earlier one is verified."""


@dataclass(slots=True)
class _Batch:
    writes: list[Write]
    sequence: int
    is_acknowledged: bool = False

    @property
    def partition(self) -> int:
        return self.writes[0].partition


class PipeliningClient(TransactionalClient):
    """Sends the batches of a transaction without waiting for the answers of earlier ones; those of
    one partition on one connection. Once all are answered the ones that failed are repeated, in
    their order.

    Invariant: a partition has at most MAX_IN_FLIGHT batches that are not acknowledged.
    """

    _batches: list[_Batch]
    _unanswered: int
    _failed: set[int]  # partitions

    def _new_batches(self) -> list[list[Write]]:
        """One record each, most of them in one partition."""
        partitions = sorted(self.leaders)
        favourite = self.generator.choice(partitions)
        return [
            [self._new_write(self.generator.choice((favourite, favourite, *partitions)))]
            for _ in range(self.generator.randint(2, MAX_IN_FLIGHT))
        ]

    def _produce(self) -> None:
        self._batches = []
        self._failed = set()
        for writes in self._unsent:
            partition = writes[0].partition
            self._batches.append(_Batch(writes, self._sequences[partition]))
            self._sequences[partition] += len(writes)
        self._unsent = []
        self._send_batches()
        if self.generator.random() < CRASH_SHARE:
            self._begin_life_later()  # while requests are under way

    def _send_batches(self) -> None:
        """Send all batches that are not acknowledged yet."""
        batches = [batch for batch in self._batches if not batch.is_acknowledged]
        if not batches:
            self._attempts = 0
            self._commit_offset()
            return
        self._unanswered = len(batches)
        self._send_next(batches, self._life)

    def _send_next(self, batches: list[_Batch], life: int) -> None:
        if life != self._life:
            return
        self._send_batch(batches[0], life)
        if batches[1:]:
            pause_ms = self.generator.choice(PAUSES_MS)
            self.schedule.after(pause_ms, partial(self._send_next, batches[1:], life))

    def _send_batch(self, batch: _Batch, life: int) -> None:
        def answered(response: Any) -> None:
            if life == self._life:
                self._answered(batch, None if response is None else produce_code(response))

        leader = self.leader_of(batch.partition)
        if leader is None:
            self._answered(batch, None)
            return
        self.send(
            leader,
            self._produce_request(batch.writes, batch.sequence),
            answered,
            purpose=f"life {life}",
            highest_version=PRODUCE_VERSION_1 if self._is_older else None,
        )

    def _answered(self, batch: _Batch, code: int | None) -> None:
        """A batch is acknowledged or has failed."""
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._is_in_order(batch):
            self._history.out_of_order += batch.writes
        batch.is_acknowledged = code == ErrorCode.NONE
        if not batch.is_acknowledged:
            self._failed.add(batch.partition)
        if code not in (None, ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, *RETRIABLE):
            self._begin_life_later()
            return
        self._unanswered -= 1
        if self._unanswered:
            return
        if all(each.is_acknowledged for each in self._batches):
            self._send_batches()
            return
        life = self._life

        def send_again() -> None:
            if life == self._life:
                self._send_batches()

        self._retry(send_again)

    def _is_in_order(self, batch: _Batch) -> bool:
        """Whether OUT_OF_ORDER_SEQUENCE_NUMBER is wrong: all batches before were acknowledged. In
        transaction version 1 no batch may have failed either: a partition to which the producer is
        new accepts any sequence number, so that of a batch after a failed one."""
        if self._is_older and batch.partition in self._failed:
            return False
        return all(
            each.is_acknowledged
            for each in self._batches
            if each.partition == batch.partition and each.sequence < batch.sequence
        )
