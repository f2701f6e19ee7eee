"""Guarantee 17: a committed offset that was acknowledged is never taken back."""

from sawlog.simulation.history.history import History
from sawlog.simulation.invariants.violation import Violation


def check_committed_offsets(history: History) -> None:
    for read in history.offset_reads:
        if read.offset < read.at_least:
            raise Violation(
                "17",
                f"partition {read.partition}: {read.member} was told the committed offset "
                f"{read.offset}; {read.at_least} had been acknowledged",
            )
