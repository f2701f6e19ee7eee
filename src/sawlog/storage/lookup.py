"""Finding records in a log: by offset for readers, by timestamp for ListOffsets.

Functions over a log's segments that change nothing but what is remembered of positions. A batch is
opened only to tell which of its records has a timestamp. Damage in the way is CORRUPT_MESSAGE.
"""

from collections.abc import Callable
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import DiskError, FileSlice
from sawlog.protocol.record_batch import BatchHeader
from sawlog.protocol.records import iterate
from sawlog.storage import refusals
from sawlog.storage.scan import Damage
from sawlog.storage.segment import Segment

if TYPE_CHECKING:
    from sawlog.storage.log import Log

MAX_DECOMPRESSED_BYTES = 64 << 20
MAX_RECORDS_OPENED = 100_000

P = ParamSpec("P")
R = TypeVar("R")

events = EventLogger(__name__)


class TimedOffset(NamedTuple):
    """A record found by its time."""

    offset: int
    timestamp: int
    leader_epoch: int


def _refuses(look_up: Callable[Concatenate["Log", P], R]) -> Callable[Concatenate["Log", P], R]:
    """Damage and a failing disk as the answer that a client gets."""

    @wraps(look_up)
    def answer(log: "Log", /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return look_up(log, *args, **kwargs)
        except Damage as damage:
            raise refusals.damaged(log.tp, damage) from damage
        except DiskError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    return answer


@_refuses
def slice_from(
    log: "Log", offset: int, max_bytes: int, limit_offset: int, whole_first_batch: bool
) -> FileSlice | None:
    """`Log.read` for an offset that is in range and below `limit_offset`."""
    segments = log.segments
    number = len(segments) - 1
    if offset < log.active.base_offset:
        number = log.segment_index_for(offset)
    while True:
        segment = segments[number]
        boundaries = segment.boundaries
        position = boundaries.get(offset)
        if position is None:
            position = segment.position_of(offset)
        is_active = segment is log.active
        upper_offset = log.end_offset if is_active else segments[number + 1].base_offset
        if limit_offset >= upper_offset:
            end = segment.file.size
        else:
            known_end = boundaries.get(limit_offset)
            end = segment.position_of(limit_offset) if known_end is None else known_end
        if position < end:
            break
        # Only where compaction left a gap: the next batch is in the next segment.
        if is_active or limit_offset <= upper_offset:
            return None
        number += 1
    length = end - position
    if length > max_bytes:
        first_batch = segment.batch_at(position).size
        if max_bytes < first_batch and not whole_first_batch:
            return None  # a reader could do nothing with a piece of a batch (KIP-74)
        length = max(max_bytes, first_batch)
    elif limit_offset <= upper_offset and limit_offset not in boundaries:
        segment.remember(limit_offset, end)
    return FileSlice(segment.file, position, length)


@_refuses
def bytes_between(log: "Log", offset: int, limit_offset: int) -> int:
    """Bytes of the batches from the one that holds `offset` up to `limit_offset`."""
    offset = max(offset, log.start_offset)
    limit_offset = min(limit_offset, log.end_offset)
    if offset >= limit_offset:
        return 0
    first = log.segment_index_for(offset)
    last = log.segment_index_for(limit_offset)
    total = -log.segments[first].position_of(offset)
    for segment in log.segments[first:last]:
        total += segment.file.size
    if limit_offset == log.end_offset:
        return total + log.active.file.size
    return total + log.segments[last].position_of(limit_offset)


@_refuses
def first_at_or_after(log: "Log", timestamp: int, limit_offset: int) -> TimedOffset | None:
    """The first record below `limit_offset` that is not older than `timestamp`."""
    for segment in log.segments[log.segment_index_for(log.start_offset) :]:
        if segment.base_offset >= limit_offset:
            break
        segment.load_times()
        if segment.max_timestamp < timestamp:
            continue
        start = max(_timed_start(segment, timestamp), segment.position_of(log.start_offset))
        for position, header in segment.batches_from(start):
            if header.base_offset >= limit_offset:
                return None
            if header.max_timestamp >= timestamp and header.last_offset >= log.start_offset:
                found = _record_in(segment, position, header, timestamp, log.start_offset)
                if found is not None:
                    return found
    return None


@_refuses
def with_max_timestamp(log: "Log", limit_offset: int) -> TimedOffset | None:
    """The first record with the highest timestamp below `limit_offset`."""
    best: Segment | None = None
    highest, highest_offset = -1, -1
    for segment in log.segments[log.segment_index_for(log.start_offset) :]:
        if segment.base_offset >= limit_offset:
            break
        timestamp, offset = _highest_below(segment, log.start_offset, limit_offset)
        if timestamp > highest:
            best, highest, highest_offset = segment, timestamp, offset
    if best is None:
        return None
    position = best.position_of(highest_offset)
    header = best.batch_at(position)
    return _record_in(best, position, header, highest, log.start_offset) or _end_of(header)


def _timed_start(segment: Segment, timestamp: int) -> int:
    """Where to begin the search: all batches before are older, or it is the beginning."""
    entry = segment.time_index.floor(timestamp)
    if entry is None:
        return 0
    position = segment.time_position(entry)
    if position is None:
        events.warning("time index rebuilt from the log", path=segment.file.path)
        segment.rebuild_indexes()
        entry = segment.time_index.floor(timestamp)
        position = segment.time_position(entry) if entry else 0
    return position or 0


def _highest_below(segment: Segment, start_offset: int, limit_offset: int) -> tuple[int, int]:
    """The highest timestamp of a segment's batches within the range, and its batch's offset."""
    segment.load_times()
    if start_offset <= segment.max_timestamp_offset < limit_offset:
        return segment.max_timestamp, segment.max_timestamp_offset
    highest, highest_offset = -1, -1
    start = _highest_start(segment, start_offset, limit_offset)
    for _, header in segment.batches_from(start):
        if header.base_offset >= limit_offset:
            break
        if header.max_timestamp > highest:
            highest, highest_offset = header.max_timestamp, header.last_offset
    return highest, highest_offset


def _highest_start(segment: Segment, start_offset: int, limit_offset: int) -> int:
    """Where to begin the search: all batches before are older, or it is the range's beginning."""
    entry = segment.time_index.floor(limit_offset - 1 - segment.base_offset, field=1)
    if entry is not None and segment.base_offset + entry[1] >= start_offset:
        position = segment.time_position(entry)
        if position is not None:
            return position
    return segment.position_of(start_offset)


def _record_in(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimedOffset | None:
    """The first record of a batch that is not older; None where only those below `start_offset`
    are, which is so in one batch of a log at most. Otherwise no reader may make the broker open one
    batch after the other: a header that promises a record and has none is answered with the batch's
    end. One too large to be looked through is answered with its beginning, too early but never
    past the record."""
    batch = segment.file.read(position, header.size)
    is_open = header.count <= MAX_RECORDS_OPENED
    try:
        records = iterate(batch, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
        for record in islice(records, MAX_RECORDS_OPENED):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimedOffset(record.offset, record.timestamp, header.leader_epoch)
    except KafkaError as error:
        if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
            raise
        is_open = False
    if not is_open:
        first = max(header.base_offset, start_offset)
        return TimedOffset(first, header.max_timestamp, header.leader_epoch)
    return None if header.base_offset < start_offset else _end_of(header)


def _end_of(header: BatchHeader) -> TimedOffset:
    return TimedOffset(header.last_offset, header.max_timestamp, header.leader_epoch)
