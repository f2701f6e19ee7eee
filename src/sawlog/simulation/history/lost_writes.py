"""Guarantees 3 and 5: all that was acknowledged or read is in the log at the end.

A write with acks=1 may be lost after its acknowledgement, unless a consumer has read it. Records
that were deleted or compacted may be missing: a compacted partition has the last acknowledged value
of each key, or a later one.
"""

from sawlog.simulation.history.cleaned_records import CleanedRecords
from sawlog.simulation.history.history import ACKS_ALL, History, Outcome
from sawlog.simulation.invariants.violation import Violation


def check_lost_writes(history: History) -> None:
    cleaned = CleanedRecords(history)
    found = {
        (partition, value)
        for partition, records in history.last_reads.items()
        for _, value in records
    }
    for write in history.writes:
        is_promised = write.outcome is Outcome.ACKNOWLEDGED and write.acks == ACKS_ALL
        if not is_promised or (write.partition, write.value) in found:
            continue
        if not cleaned.may_miss(write.partition, write.offset, write.value):
            raise Violation(
                "3",
                f"partition {write.partition} lost {write.value!r}, acknowledged at offset "
                f"{write.offset} after {write.ended_ms} ms",
            )
    for poll in history.polls:
        for offset, value in poll.records:
            if (poll.partition, value) in found:
                continue
            if not cleaned.may_miss(poll.partition, offset, value):
                raise Violation(
                    "5",
                    f"partition {poll.partition} lost {value!r}, which {poll.consumer} read at "
                    f"offset {offset}",
                )
