"""The machine of the transaction coordinator: one partition of `__transaction_state`.

The operations plan one record for each transactional id that they change. Kafka refuses requests
while such a record is not committed yet; here its effect is visible at once, and the reply to a
request that has seen it waits for its commit (`coordinator/runtime.py`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import ProducerId, TopicPartition
from sawlog.protocol.messages.transaction_log_key import TransactionLogKey
from sawlog.protocol.messages.transaction_log_value import TransactionLogValue
from sawlog.transactions.end_transaction import EndRequest, is_retry_of_completed
from sawlog.transactions.transaction import (
    FIRST_VERSION_WITH_EPOCH_BUMP,
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER,
    NO_PRODUCER_ID,
    Producer,
    Transaction,
    is_exhausted,
)
from sawlog.transactions.transaction_records import entry_of, transaction_of
from sawlog.transactions.transaction_state import TransactionState

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.transactions.context import TransactionContext

logger = EventLogger(__name__)

R = TypeVar("R")

SERVER_VERSION = FIRST_VERSION_WITH_EPOCH_BUMP
"""The transaction.version in which the coordinator itself aborts transactions."""

MAX_CHANGES = 500
"""The maximum number of transactional ids that a timer changes in one batch of records."""

MAX_CHANGED_PARTITIONS = 2_000
"""The maximum number of partitions of these transactions, so that the batch is not larger than
max.message.bytes; a transaction with more is changed alone."""

_ABORT = "abort timed-out transactions"
_EXPIRE = "remove expired transactional ids"


class InitReply(NamedTuple):
    """The reply to InitProducerId. `needs_producer_id`: nothing has happened; the request is to be
    repeated with a new producer id."""

    producer: Producer = NO_PRODUCER
    error: ErrorCode = ErrorCode.NONE
    needs_producer_id: bool = False


class EndReply(NamedTuple):
    """The reply to EndTxn: the producer's next id and epoch; `needs_producer_id` as in
    `InitReply`."""

    producer: Producer = NO_PRODUCER
    needs_producer_id: bool = False


class TransactionMachine:
    """Invariants: `transactions` is the state that the log's records describe, plus the last epoch
    of each producer, which Kafka's records do not have; the markers of every prepared transaction
    are being written while the machine is active."""

    def __init__(self, context: "TransactionContext") -> None:
        self._context = context
        self.transactions: dict[str, Transaction] = {}

    # Machine

    def replay(self, entry: "Entry") -> None:
        assert isinstance(entry.key, TransactionLogKey)
        if entry.value is None:
            self.transactions.pop(entry.key.transactional_id, None)
        else:
            assert isinstance(entry.value, TransactionLogValue)
            self.transactions[entry.key.transactional_id] = transaction_of(entry.key, entry.value)

    def replay_pending(self, _producer_id: ProducerId, _entry: "Entry") -> None:
        """`__transaction_state` has no records of transactions."""

    def end_transaction(self, _producer_id: ProducerId, *, is_commit: bool) -> None:
        """`__transaction_state` has no markers."""

    def replay_encoded(self, _key: bytes, _value: bytes) -> bool:
        return False

    def activate(self) -> None:
        """Write the markers of the transactions that an earlier coordinator has prepared."""
        for transaction in self.transactions.values():
            if transaction.state.is_prepared:
                self._context.markers.send(transaction)
        self._schedule_aborts()
        self._schedule_expiration()

    def deactivate(self, _error: KafkaError) -> None:
        self._context.markers.cancel()

    # InitProducerId

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Producer | None,
        new_producer_id: ProducerId | None = None,
    ) -> Plan[InitReply]:
        """Give the producer of a transactional id its id and the next epoch, and so fence earlier
        producers. During a transaction, abort it first and reply CONCURRENT_TRANSACTIONS: the
        client retries. `expected` is the id and epoch of a producer that goes on after an error
        (KIP-360)."""
        if not 0 < timeout_ms <= self._context.config["transaction.max.timeout.ms"]:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        now_ms = self._context.clock.now_ms()
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            if new_producer_id is None:
                return Plan(InitReply(needs_producer_id=True))
            created = Transaction.created(transactional_id, new_producer_id, timeout_ms, now_ms)
            return self._plan(created, InitReply(created.producer))
        if transaction.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        _check_expected(transaction, expected)
        if transaction.state is TransactionState.ONGOING:
            fenced = self._fenced(transaction, now_ms)
            return self._plan(fenced, InitReply(error=ErrorCode.CONCURRENT_TRANSACTIONS))
        if _needs_producer_id(transaction, expected):
            if new_producer_id is None:
                return Plan(InitReply(needs_producer_id=True))
            renewed = transaction.with_producer_id(
                new_producer_id,
                last_epoch=NO_EPOCH if expected is None else expected.epoch,
                timeout_ms=timeout_ms,
                now_ms=now_ms,
            )
        else:
            epoch, last_epoch = _next_epoch(transaction, expected)
            renewed = transaction.with_epoch(
                epoch, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms
            )
        return self._plan(renewed, InitReply(renewed.producer))

    # Partitions

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> Plan[ErrorCode]:
        """Add partitions to the transaction, which begins with the first."""
        transaction = self._find(transactional_id)
        if transaction.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        _check_producer(transaction, producer)
        is_ongoing = transaction.state is TransactionState.ONGOING
        if is_ongoing and transaction.partitions.issuperset(partitions):
            return Plan(ErrorCode.NONE)
        now_ms = self._context.clock.now_ms()
        return self._plan(
            transaction.with_partitions(partitions, client_version, now_ms), ErrorCode.NONE
        )

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> Plan[Mapping[TopicPartition, ErrorCode]]:
        """Tell for each partition whether it is part of the producer's transaction (KIP-890)."""
        transaction = self._find(transactional_id)
        _check_producer(transaction, producer)
        if transaction.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return Plan(
            {
                partition: ErrorCode.NONE
                if partition in transaction.partitions
                else ErrorCode.TRANSACTION_ABORTABLE
                for partition in partitions
            }
        )

    # The end of a transaction

    def end(
        self,
        transactional_id: str,
        request: EndRequest,
        new_producer_id: ProducerId | None = None,
    ) -> Plan[EndReply]:
        """Decide to commit or abort. The reply leaves when the decision is committed; the markers
        are written then."""
        transaction = self._find(transactional_id)
        bumps_epoch = request.client_version >= FIRST_VERSION_WITH_EPOCH_BUMP
        if is_retry_of_completed(transaction, request):
            return Plan(EndReply(transaction.producer if bumps_epoch else NO_PRODUCER))
        next_producer_id = NO_PRODUCER_ID
        if bumps_epoch and is_exhausted(transaction.epoch):
            if new_producer_id is None:
                return Plan(EndReply(needs_producer_id=True))
            next_producer_id = new_producer_id
        now_ms = self._context.clock.now_ms()
        prepared = transaction.prepared(
            is_commit=request.is_commit,
            client_version=request.client_version,
            next_producer_id=next_producer_id,
            now_ms=now_ms,
        )
        producer = prepared.completed(now_ms).producer if bumps_epoch else NO_PRODUCER
        return self._plan(prepared, EndReply(producer))

    def markers_written(self, transactional_id: str, producer: Producer) -> None:
        """All markers of a prepared transaction are written: complete it. `producer` is the
        markers' own."""
        self._context.timers.set(
            (transactional_id,), 0, partial(self._complete, transactional_id, producer)
        )

    def _complete(self, transactional_id: str, producer: Producer) -> Plan[None]:
        transaction = self.transactions.get(transactional_id)
        if (
            transaction is None
            or not transaction.state.is_prepared
            or transaction.producer != producer
        ):
            return Plan()
        completed = transaction.completed(self._context.clock.now_ms())
        return Plan(entries=(entry_of(completed),), apply=partial(self._put, (completed,)))

    # Queries

    def describe(self, transactional_id: str) -> Plan[Transaction]:
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return Plan(transaction)

    # Timers

    def _schedule_aborts(self, delay_ms: int | None = None) -> None:
        if delay_ms is None:
            name = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
            delay_ms = self._context.config[name]
        self._context.timers.set(_ABORT, delay_ms, self._abort_timed_out)

    def _abort_timed_out(self) -> Plan[None]:
        """Abort transactions that are open for longer than their timeout, and fence their
        producers."""
        now_ms = self._context.clock.now_ms()
        overdue = [
            transaction
            for transaction in self.transactions.values()
            if transaction.state is TransactionState.ONGOING
            and transaction.start_ms + transaction.timeout_ms < now_ms
        ]
        first = _first_of(overdue)
        self._schedule_aborts(0 if len(overdue) > len(first) else None)
        fenced = [self._fenced(transaction, now_ms) for transaction in first]
        for transaction in fenced:
            logger.info(
                "transaction timed out",
                transactional_id=transaction.transactional_id,
                timeout_ms=transaction.timeout_ms,
            )
        return self._plan_all(fenced)

    def _schedule_expiration(self, delay_ms: int | None = None) -> None:
        if delay_ms is None:
            name = "transaction.remove.expired.transaction.cleanup.interval.ms"
            delay_ms = self._context.config[name]
        self._context.timers.set(_EXPIRE, delay_ms, self._remove_expired)

    def _remove_expired(self) -> Plan[None]:
        """Remove transactional ids that were not used for `transactional.id.expiration.ms`."""
        expiration_ms: int = self._context.config["transactional.id.expiration.ms"]
        last_ms = self._context.clock.now_ms() - expiration_ms
        expired = [
            transaction
            for transaction in self.transactions.values()
            if transaction.state.is_expirable and transaction.updated_ms <= last_ms
        ]
        self._schedule_expiration(0 if len(expired) > MAX_CHANGES else None)
        return self._plan_all([transaction.dead() for transaction in expired[:MAX_CHANGES]])

    # Plans

    def _find(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def _fenced(self, transaction: Transaction, now_ms: int) -> Transaction:
        """The transaction, aborted in an epoch that fences its producer."""
        return transaction.fenced().prepared(
            is_commit=False,
            client_version=SERVER_VERSION,
            next_producer_id=NO_PRODUCER_ID,
            now_ms=now_ms,
        )

    def _plan(self, changed: Transaction, reply: R) -> Plan[R]:
        return Plan(
            reply,
            (entry_of(changed),),
            partial(self._put, (changed,)),
            on_committed=partial(self._committed, (changed,)),
        )

    def _plan_all(self, changed: Collection[Transaction]) -> Plan[None]:
        if not changed:
            return Plan()
        return Plan(
            None,
            [entry_of(transaction) for transaction in changed],
            partial(self._put, changed),
            on_committed=partial(self._committed, changed),
        )

    def _put(self, changed: Iterable[Transaction]) -> None:
        for transaction in changed:
            if transaction.state is TransactionState.DEAD:
                self.transactions.pop(transaction.transactional_id, None)
            else:
                self.transactions[transaction.transactional_id] = transaction

    def _committed(self, changed: Iterable[Transaction], error: KafkaError | None) -> None:
        """Write the markers of transactions whose end is decided and cannot be lost any more. After
        an error the machine is loaded again, or the records were never written."""
        if error is None:
            for transaction in changed:
                if transaction.state.is_prepared:
                    self._context.markers.send(transaction)


def _first_of(transactions: Sequence[Transaction]) -> Sequence[Transaction]:
    """The first transactions whose records fit into one batch; at least one, if there is any."""
    left = MAX_CHANGED_PARTITIONS
    for number, transaction in enumerate(transactions[:MAX_CHANGES]):
        left -= len(transaction.partitions)
        if left < 0:
            return transactions[: max(number, 1)]
    return transactions[:MAX_CHANGES]


def _check_producer(transaction: Transaction, producer: Producer) -> None:
    if transaction.producer_id != producer.id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _check_expected(transaction: Transaction, expected: Producer | None) -> None:
    """PRODUCER_FENCED unless the producer has the current id, or the previous one with an exhausted
    epoch: then it did not get the response with the new id. `_next_epoch` checks the epoch."""
    if expected is None or expected.id == transaction.producer_id:
        return
    if expected.id != transaction.previous_producer_id or not is_exhausted(expected.epoch):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _needs_producer_id(transaction: Transaction, expected: Producer | None) -> bool:
    """Whether the epochs of the producer id are exhausted. MAX_EPOCH only fences: a producer that
    goes on after its transaction was aborted in it does not get that epoch."""
    if not is_exhausted(transaction.epoch):
        return False
    return (
        expected is None
        or expected.epoch == transaction.epoch
        or (transaction.epoch == MAX_EPOCH and expected.epoch == transaction.last_epoch)
    )


def _next_epoch(transaction: Transaction, expected: Producer | None) -> tuple[int, int]:
    """Return the epoch and the last epoch after InitProducerId; PRODUCER_FENCED if the producer's
    epoch is neither the current nor the last one. The last one is a retry: the epoch stays."""
    current = transaction.epoch
    if expected is None:
        return current + 1, NO_EPOCH
    if expected.epoch == current:
        return current + 1, current
    if expected.epoch == transaction.last_epoch:
        return current, transaction.last_epoch
    raise KafkaError(ErrorCode.PRODUCER_FENCED)
