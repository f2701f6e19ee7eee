"""Guarantee 18: no value is at two offsets, whatever was retried; no producer id is used twice.

This holds for idempotent producers, and for others whose client never sends a value again.
"""

from sawlog.simulation.history.history import History
from sawlog.simulation.invariants.violation import Violation


def check_duplicates(history: History) -> None:
    repeatable = {(write.partition, write.value) for write in history.writes if write.may_repeat}
    for partition, records in history.last_reads.items():
        places: dict[bytes, int] = {}
        for offset, value in records:
            if (partition, value) in repeatable:
                continue
            first = places.setdefault(value, offset)
            if first != offset:
                raise Violation(
                    "18", f"partition {partition} has {value!r} at offsets {first} and {offset}"
                )
    seen: set[int] = set()
    for producer_id in history.producer_ids:
        if producer_id in seen:
            raise Violation("18", f"two producers got the id {producer_id}")
        seen.add(producer_id)
