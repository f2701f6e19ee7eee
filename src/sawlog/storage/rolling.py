"""When a log begins a new segment, and how.

By size, by time, by a full index, and before a relative offset would not fit into 31 bits, as in
Kafka. Time is that of the records: a segment rolls when a batch is later than the first one by more
than segment.ms, less a jitter that spreads the rolls of many partitions.
"""

from typing import TYPE_CHECKING

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import DiskError
from sawlog.storage.log_config import FOREVER, LogConfig
from sawlog.storage.segment import ALWAYS, MAX_RELATIVE_OFFSET, Segment

if TYPE_CHECKING:
    from sawlog.storage.log import Log

events = EventLogger(__name__)


def is_due(log: "Log", size: int, timestamp: int, last_offset: int) -> bool:
    """Whether a batch has to go to a new segment."""
    segment, config = log.active, log.config
    if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return True
    if segment.file.size == 0:
        return False
    if segment.file.size + size > config.segment_bytes:
        return True
    if segment.is_index_full(config.segment_index_bytes):
        return True
    patience_ms = config.segment_ms - segment.jitter_ms
    if segment.first_timestamp >= 0:
        return timestamp - segment.first_timestamp > patience_ms
    return log.home.clock.now_ms() - segment.created_ms > patience_ms


def plan(segment: Segment, config: LogConfig) -> None:
    """Sets the timestamp beyond which an append has to ask whether to roll."""
    if segment.file.size == 0:
        segment.roll_at = FOREVER
    elif segment.first_timestamp < 0:  # no timestamps: the wall clock decides
        segment.roll_at = ALWAYS
    else:
        segment.roll_at = segment.first_timestamp + config.segment_ms - segment.jitter_ms


def index_batch(segment: Segment, last_offset: int, position: int, config: LogConfig) -> None:
    """Notes a batch that is written. A missing entry costs a longer look-up; an error here would
    make the producer send the batch again."""
    try:
        segment.add_index_entry(last_offset, position)
        if segment.is_index_full(config.segment_index_bytes):
            segment.roll_at = ALWAYS
    except DiskError as error:
        events.warning("index entry left out", path=error.path, reason=error.reason)


def new_segment(log: "Log", base_offset: int) -> Segment:
    """An empty segment; its directory entry is on disk after the next flush."""
    segment = Segment(
        log.home.disk,
        log.directory,
        base_offset,
        created_ms=log.home.clock.now_ms(),
        index_interval_bytes=log.config.index_interval_bytes,
        is_new=True,
    )
    if segment.file.size:  # left by a removal that the disk forgot
        segment.file.truncate(0)
    jitter_ms = min(log.config.segment_jitter_ms, log.config.segment_ms)
    segment.jitter_ms = log.home.random.below(jitter_ms) if jitter_ms > 0 else 0
    log.commit.directory_is_dirty = True
    return segment


def roll(log: "Log", base_offset: int) -> None:
    """A new active segment from `base_offset` on; DiskError, and nothing changed."""
    old = log.active
    segment = new_segment(log, base_offset)
    if old.file.size == 0:
        old.remove(log.home.disk, log.directory)
        log.adopt([*log.segments[:-1], segment])
    else:
        old.finish()
        log.commit.unsynced += old.files()
        log.adopt([*log.segments, segment])
    log.home.rolled(log)
