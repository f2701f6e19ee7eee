"""No (partition, offset) has two values, and no value of a failed write was ever read."""

from collections.abc import Iterator

from sawlog.simulation.history.history import ACKS_ALL, History, Outcome
from sawlog.simulation.invariants.violation import Violation

ACKNOWLEDGEMENT = "the acknowledgement"


def check_read_values(history: History) -> None:
    values: dict[tuple[int, int], tuple[bytes, str]] = {}
    for partition, offset, value, reader in _reads(history):
        known, first = values.setdefault((partition, offset), (value, reader))
        if known != value:
            is_acknowledged = ACKNOWLEDGEMENT in (
                first[: len(ACKNOWLEDGEMENT)],
                reader[: len(ACKNOWLEDGEMENT)],
            )
            raise Violation(
                "3" if is_acknowledged else "5",
                f"partition {partition} offset {offset}: {first} read {known!r}, {reader} "
                f"{value!r}",
            )
    failed = {write.value for write in history.writes if write.outcome is Outcome.FAILED}
    for partition, offset, value, reader in _reads(history):
        if value in failed:
            raise Violation(
                "history",
                f"partition {partition} offset {offset}: {reader} read {value!r}, whose write "
                "was refused",
            )


def _reads(history: History) -> Iterator[tuple[int, int, bytes, str]]:
    for poll in history.polls:
        for offset, value in poll.records:
            yield poll.partition, offset, value, poll.consumer
    for partition, records in history.last_reads.items():
        for offset, value in records:
            yield partition, offset, value, "the last reader"
    for write in history.writes:
        if write.offset >= 0 and write.acks == ACKS_ALL:  # another one may be lost
            yield (
                write.partition,
                write.offset,
                write.value,
                f"{ACKNOWLEDGEMENT} of {write.producer}",
            )
