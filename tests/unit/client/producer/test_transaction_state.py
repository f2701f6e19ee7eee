"""The states of a transactional producer, and the verdicts about errors."""

import itertools

import pytest

from sawlog.client.errors import ConnectionLost, UnsupportedRequest
from sawlog.client.producer.transaction_errors import (
    TransactionAbortable,
    TransactionFatal,
    TransactionRetriable,
    Verdict,
    transaction_error,
    verdict_of_batch,
    verdict_of_request,
)
from sawlog.client.producer.transaction_state import (
    IllegalTransactionEvent,
    TransactionEvent,
    TransactionState,
    next_state,
)
from sawlog.core.errors import ErrorCode, KafkaError

State, Event = TransactionState, TransactionEvent

LEGAL = {
    (State.UNINITIALIZED, Event.INITIALIZE): State.READY,
    (State.READY, Event.BEGIN): State.IN_TRANSACTION,
    (State.IN_TRANSACTION, Event.COMMIT): State.COMMITTING,
    (State.IN_TRANSACTION, Event.ABORT): State.ABORTING,
    (State.IN_TRANSACTION, Event.FAIL): State.ABORTABLE_ERROR,
    (State.COMMITTING, Event.COMMIT): State.COMMITTING,
    (State.COMMITTING, Event.END): State.READY,
    (State.COMMITTING, Event.FAIL): State.ABORTABLE_ERROR,
    (State.ABORTING, Event.ABORT): State.ABORTING,
    (State.ABORTING, Event.END): State.READY,
    (State.ABORTING, Event.FAIL): State.ABORTING,
    (State.ABORTABLE_ERROR, Event.ABORT): State.ABORTING,
    (State.ABORTABLE_ERROR, Event.FAIL): State.ABORTABLE_ERROR,
    (State.FATAL_ERROR, Event.FAIL): State.FATAL_ERROR,
}


@pytest.mark.parametrize(("state", "event"), [*itertools.product(State, Event)])
def test_an_event_leads_to_one_state_or_is_refused(state: State, event: Event) -> None:
    if event is Event.FAIL_FOR_GOOD:
        assert next_state(state, event) is State.FATAL_ERROR
    elif (state, event) in LEGAL:
        assert next_state(state, event) is LEGAL[state, event]
    else:
        with pytest.raises(IllegalTransactionEvent, match=f"the producer is {state.value}"):
            next_state(state, event)


def test_an_open_transaction_that_commits_cannot_be_aborted() -> None:
    with pytest.raises(IllegalTransactionEvent, match=r"cannot abort .*; call commit again"):
        next_state(State.COMMITTING, Event.ABORT)


@pytest.mark.parametrize(
    ("error", "of_request", "of_batch"),
    [
        (ConnectionLost("lost"), Verdict.RETRY, Verdict.ABORT),
        (UnsupportedRequest("old"), Verdict.GIVE_UP, Verdict.ABORT),
        (KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS), Verdict.RETRY, Verdict.ABORT),
        (KafkaError(ErrorCode.NOT_COORDINATOR), Verdict.RETRY, Verdict.ABORT),
        (KafkaError(ErrorCode.TRANSACTION_ABORTABLE), Verdict.ABORT, Verdict.ABORT),
        (KafkaError(ErrorCode.ILLEGAL_GENERATION), Verdict.ABORT, Verdict.ABORT),
        (KafkaError(ErrorCode.INVALID_TXN_STATE), Verdict.GIVE_UP, Verdict.ABORT),
        (KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH), Verdict.GIVE_UP, Verdict.ABORT),
        (KafkaError(ErrorCode.PRODUCER_FENCED), Verdict.GIVE_UP, Verdict.GIVE_UP),
        (KafkaError(ErrorCode.MESSAGE_TOO_LARGE), Verdict.GIVE_UP, Verdict.ABORT),
    ],
)
def test_errors_have_the_verdict_of_the_java_producer(
    error: Exception, of_request: Verdict, of_batch: Verdict
) -> None:
    assert verdict_of_request(error) is of_request
    assert verdict_of_batch(error) is of_batch


@pytest.mark.parametrize(
    ("verdict", "expected", "advice"),
    [
        (Verdict.RETRY, TransactionRetriable, "call the same method again"),
        (Verdict.ABORT, TransactionAbortable, "abort the transaction"),
        (Verdict.GIVE_UP, TransactionFatal, "close this producer"),
    ],
)
def test_the_class_and_the_text_of_an_error_say_what_to_do(
    verdict: Verdict, expected: type[Exception], advice: str
) -> None:
    made = transaction_error(verdict, "not committed", KafkaError(ErrorCode.INVALID_TXN_STATE))
    assert type(made) is expected
    assert made.code is ErrorCode.INVALID_TXN_STATE
    assert str(made) == f"not committed: INVALID_TXN_STATE; {advice}"


def test_a_fenced_producer_is_told_the_two_reasons() -> None:
    made = transaction_error(
        Verdict.GIVE_UP, "not committed", KafkaError(ErrorCode.PRODUCER_FENCED)
    )
    assert "another producer has the transactional id" in str(made)
    assert "longer than its timeout" in str(made)


def test_a_batch_with_an_old_epoch_asks_for_an_abort_not_for_a_new_producer() -> None:
    """Only the coordinator knows whether the producer was fenced (KIP-588)."""
    error = KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    text = str(transaction_error(verdict_of_batch(error), "not delivered", error))
    assert "; abort the transaction" in text
    assert "close this producer" not in text


def test_a_refused_timeout_names_the_settings_of_both_sides() -> None:
    error = KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    text = str(transaction_error(Verdict.GIVE_UP, "not usable", error))
    assert "transaction_timeout_ms" in text
    assert "transaction.max.timeout.ms" in text
