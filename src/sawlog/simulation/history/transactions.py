"""Transactions as their clients saw them, and the check of their atomicity.

A client of `clients/transactional_client.py` copies the numbers 0, 1, 2 ... to partitions at
random, some in each transaction, and commits the next number as the offset of its group in the same
transaction. After a failure it goes on at the committed offset. So the values that a read_committed
reader finds are each number below the committed offset once, whatever failed: anything else is a
transaction that is visible in part, twice, or not at all.
"""

from dataclasses import dataclass, field

from sawlog.simulation.history.history import History, Outcome, Write
from sawlog.simulation.invariants.violation import Violation


@dataclass(slots=True)
class Transaction:
    """One transaction of a client: ACKNOWLEDGED if its commit was, FAILED if its abort was or no
    commit was ever requested, else UNKNOWN. `next_number` is the offset that it commits."""

    client: str
    next_number: int
    writes: list[Write]
    outcome: Outcome = Outcome.FAILED
    ended_ms: int = -1


@dataclass(slots=True)
class TransactionHistory:
    """`reads` has the writes of all transactions and the polls of read_committed readers."""

    reads: History = field(default_factory=History)
    transactions: list[Transaction] = field(default_factory=list)
    last_offsets: dict[str, int] = field(default_factory=dict)
    """By client: the committed offset of its group after all faults have healed."""

    out_of_order: list[Write] = field(default_factory=list)
    """Refused with OUT_OF_ORDER_SEQUENCE_NUMBER, although all batches before them in their
    partition were acknowledged."""


def number_of(value: bytes) -> int:
    """The number that a value copies; the client and the attempt stand around it."""
    return int(value.split(b":")[1])


def check_transactions(history: TransactionHistory) -> None:
    """Raise Violation if a transaction was ever visible that was not committed, or one is visible
    in part or not at all after all faults have healed."""
    _check_order(history)
    _check_polls(history)
    visible = {value for records in history.reads.last_reads.values() for _, value in records}
    for transaction in history.transactions:
        found = [write for write in transaction.writes if write.value in visible]
        if found and len(found) < len(transaction.writes):
            missing = next(write for write in transaction.writes if write.value not in visible)
            raise Violation(
                "19",
                f"a transaction of {transaction.client} is visible in part: {found[0].value!r} in "
                f"partition {found[0].partition}, not {missing.value!r} in {missing.partition}",
            )
        if not found and transaction.outcome is Outcome.ACKNOWLEDGED:
            raise Violation(
                "3",
                f"the committed transaction of {transaction.client} with "
                f"{transaction.writes[0].value!r} is not visible",
            )
        if found and transaction.outcome is Outcome.FAILED:
            raise Violation(
                "19",
                f"{transaction.client} did not commit {found[0].value!r}, which is visible in "
                f"partition {found[0].partition}",
            )
    _check_numbers(history, visible)


def _check_order(history: TransactionHistory) -> None:
    for write in history.out_of_order:
        raise Violation(
            "18",
            f"the batch of {write.producer} with {write.value!r} for partition {write.partition} "
            f"was refused as out of order, and all before it were acknowledged",
        )


def _check_polls(history: TransactionHistory) -> None:
    uncommitted = {
        write.value: transaction
        for transaction in history.transactions
        if transaction.outcome is Outcome.FAILED
        for write in transaction.writes
    }
    for poll in history.reads.polls:
        for offset, value in poll.records:
            if value in uncommitted:
                raise Violation(
                    "19",
                    f"{poll.consumer} read {value!r} at offset {offset} of partition "
                    f"{poll.partition}; {uncommitted[value].client} did not commit it",
                )


def _check_numbers(history: TransactionHistory, visible: set[bytes]) -> None:
    for client, offset in sorted(history.last_offsets.items()):
        prefix = client.encode() + b":"
        numbers = sorted(number_of(value) for value in visible if value.startswith(prefix))
        if numbers != list(range(offset)):
            odd = next((at for at, number in enumerate(numbers) if number != at), len(numbers))
            raise Violation(
                "19",
                f"{client} has committed the offset {offset}; {len(numbers)} numbers are visible, "
                f"and the first one that is missing or repeated is {odd}",
            )
