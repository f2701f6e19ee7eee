"""When a log begins a new segment.

By size, by time, by a full index, and before a relative offset would not fit into 31 bits, as in
Kafka. Time is that of the records: a segment is rolled when a batch is later than its first batch
by more than segment.ms, less a jitter that spreads the rolls of many partitions.
"""

from dataclasses import dataclass
from typing import NamedTuple

from sawlog.core.ports import Random
from sawlog.storage.log_config import FOREVER, LogConfig
from sawlog.storage.sparse_index import OFFSET_ENTRY, TIME_ENTRY

MAX_RELATIVE_OFFSET = 2**31 - 1
ALWAYS = -2
"""As a result of `check_after_ms`: every timestamp is later, so every append checks the policy."""


class SegmentFill(NamedTuple):
    """How full the active segment is."""

    base_offset: int
    size_bytes: int
    first_timestamp: int  # the highest of the first batch; -1 if records have no timestamps
    created_ms: int
    jitter_ms: int
    index_entries: int
    time_index_entries: int


@dataclass(frozen=True, slots=True)
class RollPolicy:
    """The settings of a topic that decide about rolling.

    For speed, `SegmentWriter.write` asks `is_due` only for a batch that does not fit into
    `segment_bytes`, is later than `check_after_ms`, or has too large a relative offset. A new rule
    of `is_due` must be reflected in `check_after_ms` or in that condition.
    """

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int

    @classmethod
    def of(cls, config: LogConfig) -> "RollPolicy":
        segment_ms = config.segment_ms
        if "compact" in config.cleanup_policy:  # the active segment is never cleaned
            segment_ms = min(segment_ms, config.max_compaction_lag_ms)
        return cls(
            config.segment_bytes,
            segment_ms,
            config.segment_jitter_ms,
            config.segment_index_bytes,
        )

    def is_due(
        self, fill: SegmentFill, size: int, timestamp: int, last_offset: int, now_ms: int
    ) -> bool:
        """Whether a batch of `size` bytes that ends at `last_offset` needs a new segment."""
        if last_offset - fill.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if fill.size_bytes == 0:
            return False
        if fill.size_bytes + size > self.segment_bytes or self.is_index_full(
            fill.index_entries, fill.time_index_entries
        ):
            return True
        if fill.first_timestamp < 0:  # records without timestamps: the wall clock decides
            return now_ms - fill.created_ms > self.segment_ms - fill.jitter_ms
        return timestamp - fill.first_timestamp > self.segment_ms - fill.jitter_ms

    def check_after_ms(self, fill: SegmentFill) -> int:
        """The record timestamp above which `is_due` may be true for a batch that fits by its size:
        appends with lower timestamps need not ask."""
        if fill.size_bytes == 0:
            return FOREVER
        if fill.first_timestamp < 0 or self.is_index_full(
            fill.index_entries, fill.time_index_entries
        ):
            return ALWAYS
        return fill.first_timestamp + self.segment_ms - fill.jitter_ms

    def draw_jitter_ms(self, random: Random) -> int:
        """The jitter of one new segment."""
        bound = min(self.segment_jitter_ms, self.segment_ms)
        return random.below(bound) if bound > 0 else 0

    def is_index_full(self, index_entries: int, time_index_entries: int) -> bool:
        """Whether an index has no room for another batch. The time index keeps one entry free, for
        the highest timestamp when the segment is closed."""
        return (
            index_entries >= self.segment_index_bytes // OFFSET_ENTRY.size
            or time_index_entries >= self.segment_index_bytes // TIME_ENTRY.size - 1
        )
