"""Which part of a log can be cleaned, how urgently, and in which groups of segments.

An example with numbers. Segments begin at offsets 0, 100, 200, 300 (active); the last cleaning
ended at 100. Dirty are 100 to 299, if the high watermark is at 300 or above: a segment that is not
wholly below it is left alone. With 1,000 bytes per segment the dirty ratio is 2,000 / 3,000.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sawlog.storage.log import Log
from sawlog.storage.log_config import FOREVER
from sawlog.storage.roll_policy import MAX_RELATIVE_OFFSET
from sawlog.storage.segment import Segment
from sawlog.storage.sparse_index import OFFSET_ENTRY, TIME_ENTRY


@dataclass(frozen=True, slots=True)
class CleanableLog:
    """The cleanable part of one log: Kafka's LogToClean."""

    log: Log
    first_dirty_offset: int
    end_offset: int  # the first offset that may not be cleaned: where a segment begins
    clean_bytes: int
    dirty_bytes: int
    delay_ms: int  # how long the oldest dirty record is over max.compaction.lag.ms

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log is dirty enough, or has waited too long."""
        if self.dirty_bytes == 0:
            return False
        return self.delay_ms > 0 or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def cleanable_log(log: Log, cleaned_up_to: int, limit_offset: int, now_ms: int) -> CleanableLog:
    """Find the cleanable part of a log whose last cleaning ended at `cleaned_up_to`.

    `limit_offset` is the offset below which records are committed, decided and durable.
    """
    first_dirty = cleaned_up_to
    if not log.start_offset <= first_dirty <= log.end_offset:
        first_dirty = log.start_offset  # the log was truncated, or its start has moved
    segments = log.segments
    closed = [segment for segment in segments if segment is not segments.active]
    end_offset = segments.active.base_offset
    if limit_offset < end_offset:
        end_offset = segments.holding(limit_offset).base_offset
    end_offset = min(end_offset, _lagging_from(log, closed, first_dirty, now_ms))
    dirty_from = segments.number_of(first_dirty)
    clean_bytes = dirty_bytes = 0
    dirty: list[Segment] = []
    for number, segment in enumerate(closed):
        if segment.base_offset >= end_offset:
            break
        if number >= dirty_from:
            dirty_bytes += segment.file.size
            dirty.append(segment)
        else:
            clean_bytes += segment.file.size
    delay_ms = _delay_ms(log, dirty, now_ms)
    return CleanableLog(log, first_dirty, end_offset, clean_bytes, dirty_bytes, delay_ms)


def _lagging_from(log: Log, closed: list[Segment], first_dirty: int, now_ms: int) -> int:
    """The first dirty segment with a record that is younger than min.compaction.lag.ms."""
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in closed[log.segments.number_of(first_dirty) :]:
            if segment.newest_ms > now_ms - lag_ms:
                return segment.base_offset
    return FOREVER


def _delay_ms(log: Log, dirty: list[Segment], now_ms: int) -> int:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == FOREVER:
        return 0
    oldest = min((segment.oldest_ms for segment in dirty if segment.file.size), default=now_ms)
    return max(0, now_ms - lag_ms - oldest)


def group_segments(
    segments: Sequence[Segment], max_bytes: int, max_index_bytes: int, end_offset: int
) -> list[list[Segment]]:
    """Split neighbouring segments into groups, each of which is cleaned into one segment.

    A group's files together are not larger than one segment and its indexes may be, and its
    offsets fit into 31 bits. `end_offset` is the first offset after the last segment.
    """
    groups: list[list[Segment]] = []
    sizes = (0, 0, 0)
    for number, segment in enumerate(segments):
        size = (
            segment.file.size,
            len(segment.index) * OFFSET_ENTRY.size,
            len(segment.time_index) * TIME_ENTRY.size,
        )
        is_last = number + 1 == len(segments)
        last_offset = (end_offset if is_last else segments[number + 1].base_offset) - 1
        if (
            groups
            and sizes[0] + size[0] <= max_bytes
            and sizes[1] + size[1] <= max_index_bytes
            and sizes[2] + size[2] <= max_index_bytes
            and (not size[0] or last_offset - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
            sizes = (sizes[0] + size[0], sizes[1] + size[1], sizes[2] + size[2])
        else:
            groups.append([segment])
            sizes = size
    return groups
