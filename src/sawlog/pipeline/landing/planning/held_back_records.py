"""Records that open transactions hold back from read_committed readers, and how to report them.

They are the records from the last stable offset of a partition to the end of its log.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.offset_json import Offsets

CHECK_EVERY_S = 10.0
REPORT_AFTER_S = 60.0  # Kafka's default transaction.timeout.ms: most transactions end before
_MAX_NAMED = 3


class _Held(NamedTuple):
    records: OffsetRange
    since_s: float


class HeldBackRecords:
    """Finds partitions whose last stable offset an open transaction holds back for a minute.

    Log ends are requested every ten seconds, and only of partitions whose last stable offset has
    not moved since the last check.

    An example with numbers. At 0 s the last stable offset is 5. At 10 s it is still 5, and the log
    ends at 7: offsets 5 and 6 are held back. At 70 s it has not moved, and they are reported. If
    the transaction ends at 75 s, the next call returns nothing.
    """

    def __init__(self) -> None:
        self._check_at_s = -math.inf
        self._stable: Offsets = {}  # at the last check
        self._held: dict[TopicPartition, _Held] = {}

    def found(
        self,
        stable: Offsets,
        now_s: float,
        log_ends_of: Callable[[list[TopicPartition]], Offsets],
    ) -> dict[TopicPartition, OffsetRange]:
        """The records that are held back for a minute, by the last stable offsets now."""
        if now_s >= self._check_at_s:
            self._check_at_s = now_s + CHECK_EVERY_S
            still = [tp for tp, offset in stable.items() if self._stable.get(tp) == offset]
            self._stable = dict(stable)
            log_ends = log_ends_of(still) if still else {}
            self._held = {
                partition: self._held_from(OffsetRange(partition, stable[partition], end), now_s)
                for partition, end in log_ends.items()
                if end > stable[partition]
            }
        return {
            partition: held.records
            for partition, held in self._held.items()
            if now_s - held.since_s >= REPORT_AFTER_S
            and stable.get(partition) == held.records.start
        }

    def _held_from(self, records: OffsetRange, now_s: float) -> _Held:
        known = self._held.get(records.partition)
        if known is not None and known.records.start == records.start:
            return _Held(records, known.since_s)
        return _Held(records, now_s)


def count_held_back(
    held: Mapping[TopicPartition, OffsetRange], partitions: Mapping[TopicPartition, int]
) -> int:
    """The number of offsets that are held back in these partitions."""
    return sum(held[partition].size for partition in partitions if partition in held)


def describe_held_back(held: Sequence[OffsetRange]) -> str:
    """The partitions with their held-back records, and the commands that show the transaction."""
    named = [
        f"{records.size:,} record{'' if records.size == 1 else 's'} of {records.partition}"
        f" from offset {records.start} on"
        for records in held[:_MAX_NAMED]
    ]
    more = len(held) - _MAX_NAMED
    rest = sum(records.size for records in held[_MAX_NAMED:])
    others = f"; and {rest:,} of {more} more partition{'' if more == 1 else 's'}"
    return (
        f"held back by {'an open transaction' if len(held) == 1 else 'open transactions'}:"
        f" {', '.join(named)}{others if more > 0 else ''}; see `sawlog transactions list` and"
        " `find-hanging`"
    )
