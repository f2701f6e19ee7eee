"""Errors of transactions. The class says what the application does next: abort, retry or give up.

The verdict about an error code is Kafka's own: that of the Java producer's transaction manager.
"""

from enum import Enum

from sawlog.client.errors import UNANSWERED
from sawlog.core.errors import ErrorCode, KafkaError


class TransactionError(Exception):
    """An error of a transactional producer; `code` is that of the broker, if it sent one."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code


class TransactionAbortable(TransactionError):
    """The transaction cannot be committed: call `abort`, then begin another one."""


class TransactionRetriable(TransactionError):
    """The outcome is not known yet: call the same method again."""


class TransactionFatal(TransactionError):
    """The producer cannot be used any more: close it. Another one may have its transactional id."""


class Verdict(Enum):
    RETRY = TransactionRetriable
    ABORT = TransactionAbortable
    GIVE_UP = TransactionFatal


_FATAL_FOR_BATCHES = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_ABORTABLE = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    }
)
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


def verdict_of_request(error: Exception) -> Verdict:
    """Return the verdict about an error of a request to a coordinator."""
    if isinstance(error, UNANSWERED):
        return Verdict.RETRY
    if isinstance(error, KafkaError):
        if error.is_retriable:
            return Verdict.RETRY
        if error.code in _ABORTABLE:
            return Verdict.ABORT
    return Verdict.GIVE_UP


def verdict_of_batch(error: Exception) -> Verdict:
    """Return the verdict about the error of a batch that was not delivered.

    INVALID_PRODUCER_EPOCH is abortable here: the coordinator, which is asked next, knows whether
    the producer was fenced (KIP-588).
    """
    if isinstance(error, KafkaError) and error.code in _FATAL_FOR_BATCHES:
        return Verdict.GIVE_UP
    return Verdict.ABORT


def transaction_error(verdict: Verdict, what: str, error: Exception) -> TransactionError:
    """Make the error of a verdict, with a text that says what to do."""
    code = error.code if isinstance(error, KafkaError) else None
    reason = str(error) if code is None or str(error) == code.name else f"{code.name}: {error}"
    if code in _FENCED and verdict is Verdict.ABORT:
        advice = "abort the transaction; abort tells whether another producer has the id"
    elif code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        advice = (
            "close this producer, and set transaction_timeout_ms to no more than the brokers allow"
            " (transaction.max.timeout.ms, 15 minutes by default)"
        )
    elif code in _FENCED:
        advice = (
            "another producer has the transactional id, or the transaction took longer than its"
            " timeout; close this producer"
        )
    else:
        advice = {
            Verdict.RETRY: "call the same method again",
            Verdict.ABORT: "abort the transaction",
            Verdict.GIVE_UP: "close this producer",
        }[verdict]
    made: TransactionError = verdict.value(f"{what}: {reason}; {advice}", code)
    return made
