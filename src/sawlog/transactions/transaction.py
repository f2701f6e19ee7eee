"""One transactional id: its producer, its state and its partitions; a value with its transitions.

Kafka's TransactionMetadata. Each method returns the transaction after a transition; the transition
takes effect when the record of the returned value is in the log.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sawlog.core.ids import ProducerId, TopicPartition
from sawlog.transactions.transaction_state import TransactionState, check_transition

NO_PRODUCER_ID = ProducerId(-1)
NO_EPOCH = -1
MAX_EPOCH = 32_767
NO_TIMESTAMP = -1

FIRST_VERSION_WITH_EPOCH_BUMP = 2
"""From this transaction.version on the epoch goes up with every transaction (KIP-890)."""


class Producer(NamedTuple):
    """A producer id with its epoch."""

    id: ProducerId
    epoch: int


NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_EPOCH)


def is_exhausted(epoch: int) -> bool:
    """Whether an epoch is the last that a client may get: one more is left to fence it."""
    return epoch >= MAX_EPOCH - 1


@dataclass(frozen=True, slots=True)
class Transaction:
    """Invariants: `partitions` is empty unless the state is ONGOING or prepared; the epoch never
    exceeds MAX_EPOCH.

    `previous_producer_id` is the id before the last transition. `next_producer_id` is set while a
    prepared transaction exhausts its epochs: completion switches to it. `last_epoch` is the epoch
    before the last bump that the client asked for; it is not written to the log, as in Kafka.
    `client_version` is the transaction.version of the request that caused the last transition.
    """

    transactional_id: str
    producer_id: ProducerId
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    updated_ms: int = NO_TIMESTAMP
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_id: ProducerId = NO_PRODUCER_ID
    last_epoch: int = NO_EPOCH
    client_version: int = 0

    @property
    def producer(self) -> Producer:
        return Producer(self.producer_id, self.epoch)

    @property
    def bumps_epoch(self) -> bool:
        return self.client_version >= FIRST_VERSION_WITH_EPOCH_BUMP

    def _to(self, state: TransactionState, **changes: Any) -> "Transaction":
        check_transition(self.state, state)
        return replace(self, state=state, previous_producer_id=self.producer_id, **changes)

    # InitProducerId

    @staticmethod
    def created(
        transactional_id: str, producer_id: ProducerId, timeout_ms: int, now_ms: int
    ) -> "Transaction":
        return Transaction(
            transactional_id,
            producer_id,
            0,
            timeout_ms,
            updated_ms=now_ms,
            previous_producer_id=producer_id,
        )

    def with_epoch(
        self, epoch: int, *, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> "Transaction":
        """The id of a producer that begins again in `epoch`."""
        return self._to(
            TransactionState.EMPTY,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            updated_ms=now_ms,
        )

    def with_producer_id(
        self, producer_id: ProducerId, *, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> "Transaction":
        """The id with a new producer id, because the epochs of the old one are exhausted.
        `last_epoch` is the last one that the producer knows, if it goes on after an error."""
        return self._to(
            TransactionState.EMPTY,
            producer_id=producer_id,
            epoch=0,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            updated_ms=now_ms,
        )

    def fenced(self) -> "Transaction":
        """The transaction whose producer is being fenced. It is prepared to abort next, in the same
        record and in the next epoch, which no client has (KAFKA-19367)."""
        return self._to(TransactionState.PREPARE_EPOCH_FENCE)

    # A transaction

    def with_partitions(
        self, added: Iterable[TopicPartition], client_version: int, now_ms: int
    ) -> "Transaction":
        return self._to(
            TransactionState.ONGOING,
            partitions=self.partitions.union(added),
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def prepared(
        self,
        *,
        is_commit: bool,
        client_version: int,
        next_producer_id: ProducerId,
        now_ms: int,
    ) -> "Transaction":
        """The transaction whose end is decided. With transaction.version 2 its markers carry the
        next epoch, in which the producer goes on; at MAX_EPOCH the epoch stays."""
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        epoch, last_epoch = self.epoch, self.last_epoch
        if client_version >= FIRST_VERSION_WITH_EPOCH_BUMP:
            epoch, last_epoch = min(self.epoch + 1, MAX_EPOCH), self.epoch
        return self._to(
            state,
            epoch=epoch,
            last_epoch=last_epoch,
            # A transaction without partitions has no start yet.
            start_ms=now_ms if self.state.is_expirable else self.start_ms,
            next_producer_id=next_producer_id,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """The transaction after its markers are written."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        producer_id, epoch = self.producer_id, self.epoch
        if self.bumps_epoch and self.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = self.next_producer_id, 0
        return self._to(
            state,
            producer_id=producer_id,
            epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    def dead(self) -> "Transaction":
        """The transactional id that is being removed; its record is a tombstone."""
        return self._to(TransactionState.DEAD, partitions=frozenset())
