"""Decides on an EndTxn request: which transition it causes, or why it is refused.

With transaction.version 2 (EndTxn from version 5) the epoch goes up with every end, so a retry is a
request whose epoch is one behind; the same epoch belongs to the next transaction (KAFKA-17754).
With older clients the epoch stays, and the state alone tells a retry.
"""

from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.transactions.transaction import (
    FIRST_VERSION_WITH_EPOCH_BUMP,
    MAX_EPOCH,
    Producer,
    Transaction,
)
from sawlog.transactions.transaction_state import TransactionState


class EndRequest(NamedTuple):
    """An EndTxn request; `client_version` is the transaction.version that its version implies."""

    producer: Producer
    is_commit: bool
    client_version: int


def is_retry_of_completed(transaction: Transaction, request: EndRequest) -> bool:
    """Whether the request was carried out already; KafkaError if it is refused. If it is neither,
    the transaction is to be prepared."""
    if request.client_version >= FIRST_VERSION_WITH_EPOCH_BUMP:
        return _check_with_epoch_bump(transaction, request)
    return _check_without_epoch_bump(transaction, request)


def _check_without_epoch_bump(transaction: Transaction, request: EndRequest) -> bool:
    if transaction.producer_id != request.producer.id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != request.producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is TransactionState.ONGOING:
        return False
    if transaction.state is _completed(is_commit=request.is_commit):
        return True
    raise _invalid(transaction, request)


def _check_with_epoch_bump(transaction: Transaction, request: EndRequest) -> bool:
    if transaction.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    producer, current = request.producer, transaction.producer
    is_retry_of_overflow = (
        transaction.previous_producer_id == producer.id
        and producer.epoch == MAX_EPOCH - 1
        and current.epoch == 0
    )
    # MAX_EPOCH only fences: no producer goes on with it.
    is_retry_of_bump = current.epoch == producer.epoch + 1 and current.epoch < MAX_EPOCH
    is_retry = is_retry_of_overflow or is_retry_of_bump
    if producer.id != current.id and not is_retry_of_overflow:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_complete = transaction.state in (
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    )
    if producer.epoch != current.epoch and not (is_complete and is_retry):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is TransactionState.ONGOING:
        return False
    if is_retry and is_complete:
        if transaction.state is _completed(is_commit=request.is_commit):
            return True
        raise _invalid(transaction, request)
    if request.is_commit:
        raise _invalid(transaction, request)
    return False  # a transaction without partitions: it has nothing to abort, the epoch goes up


def _completed(*, is_commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT


def _invalid(transaction: Transaction, request: EndRequest) -> KafkaError:
    wanted = "committed" if request.is_commit else "aborted"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"transaction {transaction.transactional_id!r} in state {transaction.state.title} cannot"
        f" be {wanted}",
    )
