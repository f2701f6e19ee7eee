"""The table of transitions is Kafka's, and what it does not have raises."""

import pytest

from sawlog.core.ids import ProducerId
from sawlog.transactions.transaction import Transaction
from sawlog.transactions.transaction_state import (
    PREVIOUS_STATES,
    IllegalTransition,
    TransactionState,
    check_transition,
)

S = TransactionState

LEGAL = {
    S.EMPTY: {S.EMPTY, S.ONGOING, S.PREPARE_ABORT, S.DEAD},
    S.ONGOING: {S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.PREPARE_EPOCH_FENCE},
    S.PREPARE_COMMIT: {S.COMPLETE_COMMIT},
    S.PREPARE_ABORT: {S.COMPLETE_ABORT},
    S.COMPLETE_COMMIT: {S.EMPTY, S.ONGOING, S.PREPARE_ABORT, S.DEAD},
    S.COMPLETE_ABORT: {S.EMPTY, S.ONGOING, S.PREPARE_ABORT, S.DEAD},
    S.PREPARE_EPOCH_FENCE: {S.PREPARE_ABORT},
    S.DEAD: set[S](),
}


@pytest.mark.parametrize("old", S)
@pytest.mark.parametrize("new", S)
def test_only_these_transitions_are_legal(old: S, new: S) -> None:
    if new in LEGAL[old]:
        check_transition(old, new)
    else:
        with pytest.raises(IllegalTransition):
            check_transition(old, new)


def test_every_state_has_a_row() -> None:
    assert set(PREVIOUS_STATES) == set(S)


def test_the_numbers_and_titles_are_those_of_kafka() -> None:
    assert [(state.value, state.title) for state in S] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]


def test_an_illegal_transition_raises_and_changes_nothing() -> None:
    transaction = Transaction("x", ProducerId(1), 0, 1000, S.PREPARE_COMMIT)
    with pytest.raises(IllegalTransition, match="PrepareCommit cannot become Dead"):
        transaction.dead()
    assert transaction.state is S.PREPARE_COMMIT
