"""No skip and no step back, within one poll or across the polls of a consumer."""

import itertools

from sawlog.simulation.history.history import History
from sawlog.simulation.invariants.violation import Violation


def check_poll_order(history: History) -> None:
    for poll in history.out_of_range:
        raise Violation(
            "5",
            f"partition {poll.partition}: {poll.consumer} was at {poll.position}, which became "
            "out of range",
        )
    in_log = {
        partition: [offset for offset, _ in records]
        for partition, records in history.last_reads.items()
    }
    following: dict[int, dict[int, int]] = {}
    for partition, offsets in in_log.items():
        following[partition] = dict(itertools.pairwise(offsets))
    positions: dict[tuple[str, int], int] = {}
    for poll in history.polls:
        key = (poll.consumer, poll.partition)
        last = positions.get(key)
        for offset, _ in poll.records:
            if last is not None and following.get(poll.partition, {}).get(last) != offset:
                raise Violation(
                    "history",
                    f"partition {poll.partition}: {poll.consumer} read offset {offset} after "
                    f"{last}",
                )
            last = offset
        if last is not None:
            positions[key] = last
