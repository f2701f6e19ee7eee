"""All checks of a history, in the order in which a failure says most."""

from sawlog.simulation.history.committed_offsets import check_committed_offsets
from sawlog.simulation.history.duplicates import check_duplicates
from sawlog.simulation.history.group_reads import check_group_reads
from sawlog.simulation.history.history import History
from sawlog.simulation.history.lost_writes import check_lost_writes
from sawlog.simulation.history.poll_order import check_poll_order
from sawlog.simulation.history.read_values import check_read_values


def check_history(history: History) -> None:
    """Raise Violation if clients saw what must never happen."""
    check_read_values(history)
    check_lost_writes(history)
    check_duplicates(history)
    check_poll_order(history)
    check_committed_offsets(history)
    check_group_reads(history)
