"""One segment: a file of batches, its two indexes, and what is known of its times.

Promise: `position_of` is right whatever the indexes say, because an entry is believed only when
the batch it points to agrees; an index that lies or is missing is rebuilt from the batches. Where
offsets come from, when to roll and what to sync is the log's business.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk, File
from sawlog.protocol.record_batch import HEADER_SIZE, MAGIC, BatchHeader
from sawlog.storage.index import OFFSET_ENTRY, TIME_ENTRY, SparseIndex
from sawlog.storage.log_config import FOREVER
from sawlog.storage.log_files import INDEX, LOG, SEGMENT_SUFFIXES, TIME_INDEX, offset_name
from sawlog.storage.scan import Damage, walk, walk_past_damage

MAX_RELATIVE_OFFSET = 2**31 - 1
NO_TIMESTAMP = -1
ALWAYS = -2
"""As a `roll_at`: every timestamp is later, so every append asks whether to roll."""

_TAIL_ENTRIES = 1024
LOOK_UP_BYTES = 8192
_LOOK_UP = struct.Struct(">qi4xb6xi")  # of a header: base offset, length, magic, offset delta
_BOUNDARIES_KEPT = 64
_SUSPICIOUS_WALK_BYTES = 1 << 20
_SUSPICIOUS_WALK_STEPS = 4

logger = EventLogger(__name__)


class SegmentEnd(NamedTuple):
    next_offset: int
    leader_epoch: int  # of the last batch; -1 where there is none


def report_damage(damage: Damage, behind: BatchHeader | None) -> None:
    logger.error(
        "damaged batch",
        path=damage.file.path,
        position=damage.position,
        reason=damage.reason,
        next_good_offset=behind.base_offset if behind else None,
    )


class Segment:
    """Batches with offsets from `base_offset` on.

    Invariants: the file holds whole batches only, `base_offset` is at or below the first one's,
    and no relative offset exceeds 2^31 - 1; `boundaries` holds true positions only; a time entry is
    written to its file no later than the offset entry that was made with it.
    """

    __slots__ = (
        "base_offset",
        "boundaries",
        "bytes_since_index",
        "created_ms",
        "file",
        "first_timestamp",
        "index",
        "index_interval_bytes",
        "index_is_rebuilt",
        "is_timed",
        "jitter_ms",
        "max_timestamp",
        "max_timestamp_offset",
        "roll_at",
        "time_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        created_ms: int,
        index_interval_bytes: int,
        is_new: bool,
    ) -> None:
        stem = f"{directory}/{base_offset:020d}"
        self.base_offset = base_offset
        self.file: File = disk.open(stem + LOG, create=is_new)
        self.index = SparseIndex(disk, stem + INDEX, OFFSET_ENTRY, is_new=is_new)
        self.time_index = SparseIndex(disk, stem + TIME_INDEX, TIME_ENTRY, is_new=is_new)
        self.index_interval_bytes = index_interval_bytes
        self.index_is_rebuilt = False
        self.created_ms = created_ms
        self.boundaries: dict[int, int] = {}

        # What appends go by; of a segment found on disk it is known after `load_times`.
        self.bytes_since_index = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.first_timestamp = NO_TIMESTAMP  # the first batch's highest: rolling counts from it
        self.is_timed = is_new
        self.jitter_ms = 0
        self.roll_at = FOREVER

    # Appending

    def add_index_entry(self, last_offset: int, position: int) -> None:
        self.index.tail.append((last_offset - self.base_offset, position))
        self._add_time_entry()
        self.bytes_since_index = 0
        if len(self.index.tail) >= _TAIL_ENTRIES:
            self.write_tails()

    def _add_time_entry(self) -> None:
        """Only where the highest timestamp has grown since the last entry."""
        last = self.time_index.last()
        if self.max_timestamp > (last[0] if last else NO_TIMESTAMP):
            self.time_index.tail.append(
                (self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            )

    def is_index_full(self, segment_index_bytes: int) -> bool:
        return (
            len(self.index) >= segment_index_bytes // OFFSET_ENTRY.size
            or len(self.time_index) >= segment_index_bytes // TIME_ENTRY.size - 1
        )

    def remember(self, offset: int, position: int) -> None:
        """A batch boundary that somebody is likely to ask for."""
        boundaries = self.boundaries
        boundaries[offset] = position
        if len(boundaries) > _BOUNDARIES_KEPT:
            del boundaries[next(iter(boundaries))]

    # Looking up

    def position_of(self, offset: int) -> int:
        """Where the first batch begins that holds `offset` or lies after it; else the size."""
        position = self.boundaries.get(offset)
        if position is not None:
            return position
        if offset <= self.base_offset:
            return 0
        entry = self.index.floor(offset - self.base_offset)
        start = entry[1] if entry is not None else 0
        end = self.file.size
        chunk = self.file.read(start, LOOK_UP_BYTES) if 0 <= start < end else b""
        found = self._find_in(chunk, entry, offset)
        if found is not None and start + found[1] <= end:
            return start + found[0]
        return self._find_slowly(offset)

    def _find_in(
        self, chunk: bytes, entry: tuple[int, int] | None, offset: int
    ) -> tuple[int, int] | None:
        """The usual case of `position_of`: beginning and end of the batch in what follows the
        index entry; None where it is not there, or something is not as it should be."""
        at = 0
        last = len(chunk) - _LOOK_UP.size
        while at <= last:
            base_offset, length, magic, delta = _LOOK_UP.unpack_from(chunk, at)
            last_offset = base_offset + delta
            if magic != MAGIC or length < HEADER_SIZE - 12 or delta < 0:
                return None
            if at == 0 and entry is not None and last_offset != self.base_offset + entry[0]:
                return None
            if last_offset >= offset:
                return at, at + length + 12
            at += length + 12
        return None

    def _find_slowly(self, offset: int) -> int:
        start = self._indexed_position(offset)
        end = self.file.size

        def check_damage(damage: Damage, behind: BatchHeader | None) -> None:
            """What may have been damaged must not be passed over in silence."""
            if behind is None or behind.base_offset > offset:
                raise damage

        batches = walk_past_damage(self.file, start, end, check_damage, chunk_bytes=LOOK_UP_BYTES)
        for step, (position, header) in enumerate(batches):
            if header.base_offset + header.last_offset_delta >= offset:
                return position
            if position - start > _SUSPICIOUS_WALK_BYTES and step > _SUSPICIOUS_WALK_STEPS:
                self._distrust_index("it has gaps")
        return end

    def batch_at(self, position: int) -> BatchHeader:
        """The header of the batch that begins there; Damage where none does."""
        for _, header in walk(self.file, position, self.file.size, chunk_bytes=64):
            return header
        raise Damage(self.file, position, "nothing")

    def batches_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """All batches to the end; Damage ends it."""
        return walk(self.file, position, self.file.size)

    def undamaged_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """All batches to the end; damage is logged and passed over."""
        size = self.file.size
        return walk_past_damage(self.file, position, size, report_damage, chunk_bytes=LOOK_UP_BYTES)

    def _indexed_position(self, offset: int) -> int:
        """The position of a batch that surely begins at or before the one that holds `offset`."""
        relative = offset - self.base_offset
        entry = self.index.floor(relative)
        if entry is not None and not self._is_true(entry):
            self._distrust_index(f"no such batch: {entry}")
            entry = self.index.floor(relative)
        return entry[1] if entry is not None else 0

    def _is_true(self, entry: tuple[int, int]) -> bool:
        """Whether an entry of the offset index points to the batch that it speaks of."""
        relative, position = entry
        if not 0 <= position < self.file.size:
            return False
        try:
            header = self.batch_at(position)
        except Damage:
            return False
        return header.base_offset + header.last_offset_delta == self.base_offset + relative

    # Times

    def load_times(self) -> None:
        """Makes the highest timestamp known: by the time index where it can be believed, else by
        all batches. An entry is believed when its batch agrees and no batch behind the last offset
        entry is later; a time index that was cut shows there."""
        if self.is_timed:
            return
        indexed, timed = self.index.last(), self.time_index.last()
        start = indexed[1] if indexed else 0
        is_true = indexed is None or self._is_true(indexed)
        if is_true and timed is not None:
            position = self.time_position(timed)
            is_true = position is not None
            start = max(start, position or 0)
            self.max_timestamp = timed[0]
            self.max_timestamp_offset = self.base_offset + timed[1]
        if is_true:
            self.is_timed = True
            for _, header in self.undamaged_from(start):
                if header.max_timestamp > self.max_timestamp:
                    is_true = start == 0
                    self.max_timestamp = header.max_timestamp
                    self.max_timestamp_offset = header.last_offset
        if not is_true:
            logger.warning("time index rebuilt from the log", path=self.file.path)
            self.rebuild_indexes()
            self.finish()

    def time_position(self, entry: tuple[int, int]) -> int | None:
        """Where the batch begins that a time entry speaks of; None where the entry is untrue."""
        timestamp, relative = entry
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            return None
        try:
            position = self.position_of(self.base_offset + relative)
            header = self.batch_at(position)
        except Damage:
            return None
        if header.max_timestamp != timestamp or header.base_offset > self.base_offset + relative:
            return None
        return position

    # Resuming and rebuilding

    def end_by_index(self) -> SegmentEnd | None:
        """Where the segment ends, by the last index entry and the few batches behind it; None
        where they do not fit together. Indexes and times stay as they are on disk."""
        entry = self.index.last()
        start = entry[1] if entry else 0
        end = self.file.size
        if not 0 <= start <= end:
            return None
        header: BatchHeader | None = None
        try:
            for position, header in walk(self.file, start, end, chunk_bytes=LOOK_UP_BYTES):
                if (
                    entry
                    and position == start
                    and header.last_offset != self.base_offset + entry[0]
                ):
                    return None
        except Damage:
            return None
        self.bytes_since_index = end - start
        if header is None:
            return SegmentEnd(self.base_offset, -1)
        self.remember(header.next_offset, end)
        return SegmentEnd(header.next_offset, header.leader_epoch)

    def resume(self, offset: int) -> int:
        """Keeps of both indexes what lies below `offset` and is true; returns where to `replay`
        batches from to bring them up to date again."""
        self.boundaries.clear()
        relative = max(0, offset - self.base_offset)
        index = self.index
        index.drop_from(0, relative)
        entry = index.last()
        while entry is not None and not self._is_true(entry):
            count = len(index)
            index.drop_from(0, entry[0])
            if len(index) >= count:  # not even in order
                index.clear()
            entry = index.last()
        self.is_timed = True
        self.bytes_since_index = 0
        if entry is not None and self._resume_times(entry):
            return entry[1]
        index.clear()
        self.time_index.clear()
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        return 0

    def _resume_times(self, entry: tuple[int, int]) -> bool:
        """The highest timestamp up to the batch that the offset entry points to, if the time index
        can tell: its last entry must be true, and no batch between the two later than it."""
        self.time_index.drop_from(1, entry[0] + 1)
        timed = self.time_index.last()
        position: int | None = 0
        if timed is not None:
            position = self.time_position(timed)
        if position is None:
            return False
        highest, relative = timed or (NO_TIMESTAMP, 0)
        for at, header in self.undamaged_from(position):
            if header.max_timestamp > highest:
                return False
            if at >= entry[1]:
                break
        self.max_timestamp = highest
        self.max_timestamp_offset = self.base_offset + relative
        return True

    def replay(self, position: int, header: BatchHeader) -> None:
        """What an append of this batch at this position does to indexes and times."""
        last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_index > self.index_interval_bytes:
            self.add_index_entry(last_offset, position)
        self.bytes_since_index += header.length + 12

    def rebuild_indexes(self) -> None:
        """Both indexes anew from the batches; damage on the way ends them there."""
        self.index_is_rebuilt = True
        self.index.clear()
        self.time_index.clear()
        start = self.resume(self.base_offset)
        for position, header in self.undamaged_from(start):
            self.replay(position, header)

    def _distrust_index(self, reason: str) -> None:
        if not self.index_is_rebuilt:
            logger.warning("index rebuilt from the log", path=self.file.path, reason=reason)
            self.rebuild_indexes()

    # Ending

    def write_tails(self) -> None:
        self.time_index.write()
        self.index.write()

    def finish(self) -> None:
        """At roll and close: all entries on file, the highest timestamp as the last time entry."""
        if self.is_timed:
            self._add_time_entry()
        self.time_index.write(also_empty=True)
        self.index.write(also_empty=True)

    def files(self) -> list[File]:
        """What has to be synced once the segment is complete."""
        return [self.file, *self.index.files(), *self.time_index.files()]

    def close(self) -> None:
        self.file.close()
        self.index.close()
        self.time_index.close()

    def names(self) -> list[str]:
        return [offset_name(self.base_offset, suffix) for suffix in SEGMENT_SUFFIXES]

    def remove(self, disk: Disk, directory: str) -> None:
        """Unlinks the files; slices under way keep reading theirs."""
        self.index.close()
        self.time_index.close()
        for name in self.names():
            disk.remove(f"{directory}/{name}")
