"""No skip and no step back, within one poll or across the polls of a consumer.

A consumer may skip what was compacted before it came there. After records were deleted it goes on
at the log start offset, under another name.
"""

from bisect import bisect_left, bisect_right

from sawlog.simulation.history.cleaned_records import CleanedRecords
from sawlog.simulation.history.history import History
from sawlog.simulation.invariants.violation import Violation


def check_poll_order(history: History) -> None:
    for poll in history.out_of_range:
        if poll.position >= history.start_offsets.get(poll.partition, 0):
            raise Violation(
                "5",
                f"partition {poll.partition}: {poll.consumer} was at {poll.position}, which became "
                "out of range",
            )
    cleaned = CleanedRecords(history)
    known = _known_records(history)
    offsets = {partition: sorted(records) for partition, records in known.items()}
    positions: dict[tuple[str, int], int] = {}
    for poll in history.polls:
        key = (poll.consumer, poll.partition)
        last = positions.get(key)
        for offset, _ in poll.records:
            if last is not None:
                in_order = offsets[poll.partition]
                between = in_order[bisect_right(in_order, last) : bisect_left(in_order, offset)]
                if offset <= last or not all(
                    history.is_compacted
                    and cleaned.may_miss(poll.partition, each, known[poll.partition][each])
                    for each in between
                ):
                    raise Violation(
                        "history",
                        f"partition {poll.partition}: {poll.consumer} read offset {offset} after "
                        f"{last}",
                    )
            last = offset
        if last is not None:
            positions[key] = last


def _known_records(history: History) -> dict[int, dict[int, bytes]]:
    """By partition and offset: every value that was in the log at the end, or was ever read."""
    known: dict[int, dict[int, bytes]] = {
        partition: dict(records) for partition, records in history.last_reads.items()
    }
    for poll in history.polls:
        known.setdefault(poll.partition, {}).update(poll.records)
    return known
