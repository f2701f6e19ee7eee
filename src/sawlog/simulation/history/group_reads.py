"""At least once: the members of a group have read every record below its committed offset."""

from collections import defaultdict

from sawlog.simulation.history.history import History
from sawlog.simulation.invariants.violation import Violation


def check_group_reads(history: History) -> None:
    read: dict[tuple[str, int], set[int]] = defaultdict(set)
    for poll in history.polls:
        if poll.group:
            read[poll.group, poll.partition].update(offset for offset, _ in poll.records)
    for (group, partition), committed in history.committed.items():
        for offset, value in history.last_reads.get(partition, ()):
            if offset < committed and offset not in read[group, partition]:
                raise Violation(
                    "history",
                    f"partition {partition}: {group} has committed {committed}, and no member has "
                    f"read {value!r} at offset {offset}",
                )
