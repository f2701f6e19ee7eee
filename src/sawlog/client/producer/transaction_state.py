"""The states of a transactional producer, as one table; an illegal event changes nothing."""

from enum import Enum


class TransactionState(Enum):
    UNINITIALIZED = "uninitialized"
    READY = "ready"
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

DROPPING = frozenset({_State.ABORTING, _State.ABORTABLE_ERROR, _State.FATAL_ERROR})
"""States in which batches that are not in flight are dropped."""

_UNFINISHED = {_State.COMMITTING: _Event.COMMIT, _State.ABORTING: _Event.ABORT}
"""The method that is to be called again after it raised TransactionRetriable."""


def next_state(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """Return the state after the event; IllegalTransactionEvent if it is not allowed."""
    following = _NEXT[state].get(event)
    if following is None:
        unfinished = _UNFINISHED.get(state)
        raise IllegalTransactionEvent(
            f"cannot {event.value} a transaction: the producer is {state.value}"
            + (f"; call {unfinished.value} again" if unfinished else "")
        )
    return following
