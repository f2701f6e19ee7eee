"""The states of a transactional producer, as one table; an illegal event changes nothing."""

from enum import Enum


class TransactionState(Enum):
    UNINITIALIZED = "not initialized"
    READY = "in no transaction"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "failed, to be aborted"
    FATAL_ERROR = "failed for good"


class TransactionEvent(Enum):
    INITIALIZE = "initialize"
    BEGIN = "begin"
    COMMIT = "commit"
    ABORT = "abort"
    END = "end"
    FAIL = "fail"
    FAIL_FOR_GOOD = "fail for good"


class IllegalTransactionEvent(ValueError):
    """The method cannot be called in the state of the transaction; nothing has changed."""


_State, _Event = TransactionState, TransactionEvent
_NEXT: dict[TransactionState, dict[TransactionEvent, TransactionState]] = {
    _State.UNINITIALIZED: {
        _Event.INITIALIZE: _State.READY,
        _Event.FAIL_FOR_GOOD: _State.FATAL_ERROR,
    },
    _State.READY: {
        _Event.BEGIN: _State.IN_TRANSACTION,
        _Event.FAIL_FOR_GOOD: _State.FATAL_ERROR,
    },
    _State.IN_TRANSACTION: {
        _Event.COMMIT: _State.COMMITTING,
        _Event.ABORT: _State.ABORTING,
        _Event.FAIL: _State.ABORTABLE_ERROR,
        _Event.FAIL_FOR_GOOD: _State.FATAL_ERROR,
    },
    _State.COMMITTING: {
        _Event.COMMIT: _State.COMMITTING,  # again, after a timeout
        _Event.END: _State.READY,
        _Event.FAIL: _State.ABORTABLE_ERROR,
        _Event.FAIL_FOR_GOOD: _State.FATAL_ERROR,
    },
    _State.ABORTING: {
        _Event.ABORT: _State.ABORTING,  # again, after a timeout
        _Event.END: _State.READY,
        _Event.FAIL: _State.ABORTING,  # batches in flight fail
        _Event.FAIL_FOR_GOOD: _State.FATAL_ERROR,
    },
    _State.ABORTABLE_ERROR: {
        _Event.ABORT: _State.ABORTING,
        _Event.FAIL: _State.ABORTABLE_ERROR,
        _Event.FAIL_FOR_GOOD: _State.FATAL_ERROR,
    },
    _State.FATAL_ERROR: {
        _Event.FAIL: _State.FATAL_ERROR,
        _Event.FAIL_FOR_GOOD: _State.FATAL_ERROR,
    },
}

_ADVICE = {
    _State.UNINITIALIZED: "call begin first",
    _State.READY: "call begin first",
    _State.IN_TRANSACTION: "commit or abort it first",
    _State.COMMITTING: "call commit again",
    _State.ABORTING: "call abort again",
    _State.ABORTABLE_ERROR: "call abort first",
    _State.FATAL_ERROR: "close it",
}

DROPPING = frozenset({_State.ABORTING, _State.ABORTABLE_ERROR, _State.FATAL_ERROR})
"""States in which batches that are not in flight are dropped."""


def next_state(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """Return the state after the event; IllegalTransactionEvent if it is not allowed."""
    following = _NEXT[state].get(event)
    if following is None:
        raise IllegalTransactionEvent(
            f"cannot {event.value} a transaction: the producer is {state.value}; {_ADVICE[state]}"
        )
    return following
