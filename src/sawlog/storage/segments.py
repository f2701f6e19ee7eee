"""The segments of one log: an ordered container, and the look-ups by offset and by timestamp.

Look-ups change nothing but remembered positions and rebuilt indexes. A batch is opened only to find
which of its records has a timestamp. All of them raise Damage where a damaged batch is in the way,
and DiskError where the disk fails.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import FileSlice
from sawlog.protocol.record_batch import BatchHeader
from sawlog.protocol.records import iterate
from sawlog.storage.batch_scan import Damage, sound_batch
from sawlog.storage.open_transactions import AbortedTransaction
from sawlog.storage.segment import Segment

MAX_DECOMPRESSED_BYTES = 64 << 20
MAX_RECORDS_OPENED = 100_000

logger = EventLogger(__name__)


class TimedOffset(NamedTuple):
    """A record that was found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


class Segments:
    """The segments of one log.

    Invariants: ordered by base offset, without duplicates, never empty; `active` is the last one.

    An example with numbers. Segments with the base offsets 0, 20 and 50: `holding(19)` is the
    first, `holding(20)` the second. `cut(1)` takes out the last one, and 20 is active; `drop(2)`
    takes out the first two; `replace([0, 20], merged)` puts one segment in the place of the first
    two, as compaction does.
    """

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._set(list(segments))

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def base_offsets(self) -> Sequence[int]:
        return self._bases

    @property
    def base_offset(self) -> int:
        """Of the first segment: no earlier record is in the files."""
        return self._bases[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.file.size for segment in self._segments)

    # Changes

    def append(self, segment: Segment) -> None:
        """Add a new active segment after all others."""
        self._set([*self._segments, segment])

    def cut(self, number: int) -> list[Segment]:
        """Take out all segments after `number`, which becomes the active one; returns them."""
        assert number >= 0
        removed = self._segments[number + 1 :]
        self._set(self._segments[: number + 1])
        return removed

    def drop(self, count: int) -> list[Segment]:
        """Take out the `count` oldest segments, never the active one; returns them."""
        assert 0 <= count < len(self._segments)
        removed = self._segments[:count]
        self._set(self._segments[count:])
        return removed

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put one segment in the place of a run of neighbours."""
        first = self._segments.index(old[0])
        assert self._segments[first : first + len(old)] == list(old)
        self._set([*self._segments[:first], new, *self._segments[first + len(old) :]])

    def _set(self, segments: list[Segment]) -> None:
        bases = [segment.base_offset for segment in segments]
        assert bases, "a log has at least one segment"
        assert all(low < high for low, high in pairwise(bases)), bases
        self._segments = segments
        self._bases = bases
        self.active = segments[-1]

    # Look-up by offset

    def number_of(self, offset: int) -> int:
        """The number of the segment that would hold `offset`: the last that begins at or before
        it, else the first."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def holding(self, offset: int) -> Segment:
        """The segment that would hold `offset`."""
        return self._segments[self.number_of(offset)]

    def since(self, offset: int) -> Sequence[Segment]:
        """The segment that would hold `offset`, and all after it."""
        return self._segments[self.number_of(offset) :]

    def count_below(self, offset: int, end_offset: int) -> int:
        """How many of the oldest segments lie wholly below `offset`: all of them if the whole log
        does and its active segment is not empty. `end_offset` is the log end offset."""
        if offset >= end_offset:
            return len(self) - (self.active.file.size == 0)
        return self.number_of(offset)

    def slice_from(
        self,
        offset: int,
        max_bytes: int,
        *,
        limit_offset: int,
        end_offset: int,
        whole_first_batch: bool,
    ) -> FileSlice | None:
        """`Log.read` for an `offset` that is in range and below `limit_offset`; `end_offset` is the
        log end offset."""
        segments = self._segments
        number = len(segments) - 1
        active = self.active
        if offset < active.base_offset:
            number = self.number_of(offset)
        while True:
            segment = segments[number]
            boundaries = segment.boundaries
            position = boundaries.get(offset)
            if position is None:
                position = segment.position_of(offset)
            is_active = segment is active
            upper_offset = end_offset if is_active else segments[number + 1].base_offset
            if limit_offset >= upper_offset:
                end = segment.file.size
            else:
                known_end = boundaries.get(limit_offset)
                end = segment.position_of(limit_offset) if known_end is None else known_end
            if position < end:
                break
            # Compaction left a gap: the next batch is in the next segment.
            if is_active or limit_offset <= upper_offset:
                return None
            number += 1
        length = end - position
        if length > max_bytes:
            first_batch = segment.batch_at(position).size
            if max_bytes < first_batch and not whole_first_batch:
                return None  # a consumer cannot use a part of a batch (KIP-74)
            length = max(max_bytes, first_batch)
        elif limit_offset <= upper_offset and limit_offset not in boundaries:
            segment.remember(limit_offset, end)
        return FileSlice(segment.file, position, length)

    def is_sound_at(self, offset: int, end_offset: int) -> bool:
        """Whether the first batch that holds `offset` or lies after it can be read, matches its CRC
        and ends before the next one; True where there is none. `end_offset` is the log end
        offset."""
        try:
            for segment in self.since(offset):
                position = segment.position_of(offset)
                if position < segment.file.size:
                    header = sound_batch(segment.file, position, segment.file.size)
                    return header is not None and header.next_offset <= self._next_base_offset(
                        segment, position + header.size, end_offset
                    )
        except Damage:
            return False
        return True

    def _next_base_offset(self, segment: Segment, position: int, end_offset: int) -> int:
        """The base offset of the batch at `position`; after the last one of a segment, that of the
        next segment or the log end offset."""
        if position < segment.file.size:
            return segment.batch_at(position).base_offset
        return self.next_base_offset(segment, end_offset)

    def next_base_offset(self, segment: Segment, end_offset: int) -> int:
        """The base offset of the segment after `segment`; after the last one, `end_offset`, the log
        end offset."""
        if segment is self.active:
            return end_offset
        return self._bases[self._segments.index(segment) + 1]

    def aborted_between(self, start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records from `start_offset` up to `upper_offset`."""
        found: list[AbortedTransaction] = []
        for segment in self.since(start_offset):
            entries, are_all = segment.transaction_index.overlapping(start_offset, upper_offset)
            found += entries
            if are_all:
                break
        return found

    def offset_after(self, piece: FileSlice, offset: int, end_offset: int) -> int:
        """An offset above those of all batches in a slice that begins with `offset`, and near its
        end; `end_offset` is the log end offset."""
        for segment in self.since(offset):
            if segment.file is piece.file:
                found = segment.offset_after(piece.position + piece.length)
                return self.next_base_offset(segment, end_offset) if found is None else found
        return end_offset

    def find_cut(self, offset: int) -> tuple[int, int]:
        """The log end offset that a truncation at `offset` leaves, and its position in its segment:
        a batch that holds `offset` goes, too."""
        offset = max(offset, self.base_offset)
        segment = self.holding(offset)
        position = segment.position_of(offset)
        if position < segment.file.size:
            offset = min(offset, segment.batch_at(position).base_offset)
        return offset, position

    def bytes_between(self, offset: int, limit_offset: int, end_offset: int) -> int:
        """The bytes of the batches from the one that holds `offset` up to `limit_offset`, which
        is at most `end_offset`, the log end offset."""
        if offset >= limit_offset:
            return 0
        first = self.number_of(offset)
        last = self.number_of(limit_offset)
        total = -self._segments[first].position_of(offset)
        for segment in self._segments[first:last]:
            total += segment.file.size
        if limit_offset == end_offset:
            return total + self.active.file.size
        return total + self._segments[last].position_of(limit_offset)

    def headers_between(self, offset: int, end_offset: int) -> Iterator[BatchHeader]:
        """The headers of all batches in a range of offsets; damage is logged and skipped."""
        for _, _, header in self.batches_between(offset, end_offset):
            yield header

    def batches_between(
        self, offset: int, end_offset: int
    ) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """As `headers_between`, with the segment and the position of each batch."""
        if offset >= end_offset:
            return
        for segment in self.since(offset):
            try:
                start = segment.position_of(offset)
            except Damage:  # at `offset` itself: begin before it
                start = 0
            for position, header in segment.undamaged_from(start):
                if header.base_offset >= end_offset:
                    return
                if header.last_offset >= offset:
                    yield segment, position, header

    # Look-up by timestamp

    def first_at_or_after(
        self, timestamp: int, *, start_offset: int, limit_offset: int
    ) -> TimedOffset | None:
        """The first record from `start_offset` up to `limit_offset` that is not older than
        `timestamp`."""
        for segment in self.since(start_offset):
            if segment.base_offset >= limit_offset:
                break
            segment.load_times()
            if segment.max_timestamp < timestamp:
                continue
            start = max(_timed_start(segment, timestamp), segment.position_of(start_offset))
            for position, header in segment.batches_from(start):
                if header.base_offset >= limit_offset:
                    return None
                is_candidate = header.max_timestamp >= timestamp and header.count != 0
                if is_candidate and header.last_offset >= start_offset:
                    found = _record_in(segment, position, header, timestamp, start_offset)
                    if found is not None:
                        return found
        return None

    def with_max_timestamp(self, *, start_offset: int, limit_offset: int) -> TimedOffset | None:
        """The first record with the highest timestamp from `start_offset` up to `limit_offset`."""
        best: Segment | None = None
        highest, highest_offset = -1, -1
        for segment in self.since(start_offset):
            if segment.base_offset >= limit_offset:
                break
            timestamp, offset = _highest_below(segment, start_offset, limit_offset)
            if timestamp > highest:
                best, highest, highest_offset = segment, timestamp, offset
        if best is None:
            return None
        position = best.position_of(highest_offset)
        header = best.batch_at(position)
        return _record_in(best, position, header, highest, start_offset) or _end_of(header)


def _timed_start(segment: Segment, timestamp: int) -> int:
    """The position to search from: all earlier batches are older than `timestamp`."""
    entry = segment.time_index.floor(timestamp)
    if entry is None:
        return 0
    position = segment.time_position(entry)
    if position is None:
        logger.warning("time index rebuilt from the log", path=segment.file.path)
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
    """The position to search from: no earlier batch of the range has a higher timestamp."""
    entry = segment.time_index.floor(limit_offset - 1 - segment.base_offset, field=1)
    if entry is not None and segment.base_offset + entry[1] >= start_offset:
        position = segment.time_position(entry)
        if position is not None:
            return position
    return segment.position_of(start_offset)


def _record_in(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimedOffset | None:
    """The first record of a batch that is not older than `timestamp`; None if all of these are
    below `start_offset`, which is possible for one batch of a log at most.

    A request must not make the broker open one batch after the other: if the header promises a
    record and the batch has none, the answer is the end of the batch. If the batch is too large to
    be opened, the answer is its start, which is never after the wanted record.
    """
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
