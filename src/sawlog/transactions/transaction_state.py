"""The states of a transaction and the table of their transitions, as in Apache Kafka 4."""

from enum import Enum


class TransactionState(Enum):
    """The numbers are those of the records; `title` is the name in DescribeTransactions."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the end of the transaction is decided and its markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_expirable(self) -> bool:
        """Whether an idle transactional id in this state may be removed."""
        return self in _IDLE


class IllegalTransition(Exception):
    """A transition that the table does not have: a bug in the coordinator."""


_IDLE = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)

PREVIOUS_STATES: dict[TransactionState, frozenset[TransactionState]] = {
    # InitProducerId
    TransactionState.EMPTY: _IDLE,
    # AddPartitionsToTxn, AddOffsetsToTxn, Produce and TxnOffsetCommit
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    # EndTxn; with transaction.version 2 a transaction without partitions can be aborted (KIP-890)
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _IDLE
    | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    # all markers are written
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    # expiration of the transactional id
    TransactionState.DEAD: _IDLE,
    # a timeout, or InitProducerId during a transaction; never written
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""For each state, those from which it can be entered. A new transactional id starts EMPTY."""


def check_transition(old: TransactionState, new: TransactionState) -> None:
    """Raise IllegalTransition if `new` cannot follow `old`."""
    if old not in PREVIOUS_STATES[new]:
        raise IllegalTransition(f"{old.title} cannot become {new.title}")


BY_TITLE = {state.title: state for state in TransactionState}
