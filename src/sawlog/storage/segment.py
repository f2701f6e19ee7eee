"""One segment of a log: a file of record batches, its indexes, and its timestamps.

Promise: `position_of` is right whatever the indexes say. An index entry is used only if the batch
that it points to agrees, and an index that is wrong or missing is rebuilt from the batches. The log
decides about offsets, rolling and syncing.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from sawlog.core.errors import KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk, DiskError, File
from sawlog.protocol.control_records import EndTransactionMarker, read_marker
from sawlog.protocol.record_batch import HEADER_SIZE, MAGIC, BatchHeader
from sawlog.storage.batch_scan import Damage, walk, walk_past_damage
from sawlog.storage.log_config import FOREVER
from sawlog.storage.log_files import (
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    TIME_INDEX,
    TRANSACTION_INDEX,
    offset_name,
)
from sawlog.storage.roll_policy import MAX_RELATIVE_OFFSET, SegmentFill
from sawlog.storage.sparse_index import OFFSET_ENTRY, TIME_ENTRY, SparseIndex
from sawlog.storage.transaction_index import TransactionIndex

NO_TIMESTAMP = -1

_TAIL_ENTRIES = 1024
LOOK_UP_BYTES = 8192
_LOOK_UP = struct.Struct(">qi4xb6xi")  # of a header: base offset, length, magic, offset delta
_BOUNDARIES_KEPT = 64
_SUSPICIOUS_WALK_BYTES = 1 << 20
_SUSPICIOUS_WALK_STEPS = 4

logger = EventLogger(__name__)


class SegmentEnd(NamedTuple):
    """The offset after the last record of a segment, and the leader epoch of that record."""

    next_offset: int
    leader_epoch: int  # -1 for an empty segment


def report_damage(damage: Damage, next_batch: BatchHeader | None) -> None:
    logger.error(
        "damaged batch",
        path=damage.file.path,
        position=damage.position,
        reason=damage.reason,
        next_good_offset=next_batch.base_offset if next_batch else None,
    )


class Segment:
    """Record batches with offsets from `base_offset` on.

    Invariants: the file holds whole batches only, `base_offset` is at or below the first one's,
    and no relative offset exceeds 2^31 - 1; `boundaries` holds right positions only; a time entry
    is written to its file no later than the offset entry that was made with it.
    """

    __slots__ = (
        "base_offset",
        "boundaries",
        "bytes_since_index",
        "created_ms",
        "file",
        "first_timestamp",
        "has_times",
        "index",
        "index_interval_bytes",
        "index_is_rebuilt",
        "jitter_ms",
        "max_timestamp",
        "max_timestamp_offset",
        "rewrites_indexes",
        "suffix",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        created_ms: int,
        index_interval_bytes: int,
        jitter_ms: int = 0,
        is_new: bool,
        suffix: str = "",
    ) -> None:
        """`suffix` follows the usual name of each file: `.cleaned` or `.swap` while the segment is
        the result of a cleaning and not yet in its place."""
        stem = f"{directory}/{base_offset:020d}"
        self.base_offset = base_offset
        self.suffix = suffix
        self.file: File = disk.open(stem + LOG + suffix, create=is_new)
        self.index = SparseIndex(disk, stem + INDEX + suffix, OFFSET_ENTRY, is_new=is_new)
        self.time_index = SparseIndex(disk, stem + TIME_INDEX + suffix, TIME_ENTRY, is_new=is_new)
        self.transaction_index = TransactionIndex(
            disk, stem + TRANSACTION_INDEX + suffix, is_new=is_new
        )
        self.index_interval_bytes = index_interval_bytes
        self.index_is_rebuilt = False
        self.rewrites_indexes = False  # when the segment is complete
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms  # subtracted from segment.ms
        self.boundaries: dict[int, int] = {}  # positions of batches by offset

        # For a segment that was found on disk, `load_times` sets these.
        self.bytes_since_index = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.first_timestamp = NO_TIMESTAMP  # the highest of the first batch
        self.has_times = is_new
        if is_new and self.file.size:  # the disk forgot that the file was removed
            self.file.truncate(0)

    # Appending

    def append(self, batch: memoryview, size: int, last_offset: int, timestamp: int) -> bool:
        """Append one batch of `size` bytes; DiskError, and nothing has changed.

        Returns whether the answers of the roll policy may have changed: the batch is the first
        one, or it got an index entry.
        """
        position = self.file.append((batch,))
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        is_indexed = self.bytes_since_index > self.index_interval_bytes
        if is_indexed:
            try:
                self.add_index_entry(last_offset, position)
            except Exception as error:
                # The batch is written, so this append must succeed: after an error the log would
                # assign its offsets again. A missing entry only costs a longer look-up.
                logger.warning("index entry not written", path=self.file.path, reason=str(error))
        self.bytes_since_index += size
        if position:
            return is_indexed
        self.first_timestamp = timestamp
        return True

    def prepare_append(self, index_interval_bytes: int) -> None:
        """Load what appends need to know of a segment that was found on disk; Damage or DiskError
        where that fails."""
        self.load_times()
        if self.file.size:
            self.first_timestamp = self.batch_at(0).max_timestamp
        self.index_interval_bytes = index_interval_bytes

    def add_index_entry(self, last_offset: int, position: int) -> None:
        self.index.add((last_offset - self.base_offset, position))
        self._add_time_entry()
        self.bytes_since_index = 0
        if self.index.unwritten >= _TAIL_ENTRIES:
            self.write_tails()

    def _add_time_entry(self) -> None:
        """Add the highest timestamp to the time index if it has grown since the last entry."""
        last = self.time_index.last()
        if self.max_timestamp > (last[0] if last else NO_TIMESTAMP):
            self.time_index.add((self.max_timestamp, self.max_timestamp_offset - self.base_offset))

    def fill(self) -> SegmentFill:
        """How full the segment is, for the roll policy."""
        return SegmentFill(
            self.base_offset,
            self.file.size,
            self.first_timestamp,
            self.created_ms,
            self.jitter_ms,
            len(self.index),
            len(self.time_index),
        )

    @property
    def newest_ms(self) -> int:
        """The timestamp of the newest record; when the segment was created or opened if its
        records have no timestamps. An empty segment, which a cleaning may leave, is older than
        any record: it must not keep later segments from being deleted."""
        if not self.file.size:
            return NO_TIMESTAMP
        self.load_times()
        return self.created_ms if self.max_timestamp == NO_TIMESTAMP else self.max_timestamp

    @property
    def oldest_ms(self) -> int:
        """The highest timestamp of the first batch; when the segment was created or opened if its
        records have no timestamps."""
        if self.first_timestamp == NO_TIMESTAMP and self.file.size:
            self.first_timestamp = self.batch_at(0).max_timestamp
        return self.created_ms if self.first_timestamp == NO_TIMESTAMP else self.first_timestamp

    def remember(self, offset: int, position: int) -> None:
        """Keep the position of a batch boundary that a fetch is likely to need."""
        boundaries = self.boundaries
        boundaries[offset] = position
        if len(boundaries) > _BOUNDARIES_KEPT:
            del boundaries[next(iter(boundaries))]

    # Look-up by offset

    def position_of(self, offset: int) -> int:
        """The position of the first batch that holds `offset` or lies after it; else the file's
        size."""
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
        """The usual case of `position_of`: start and end of the batch within the chunk after the
        index entry; None where it is not in there or the chunk looks damaged."""
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

        def check_damage(damage: Damage, next_batch: BatchHeader | None) -> None:
            """Fail if the damaged batch may be the one that is looked for."""
            if next_batch is None or next_batch.base_offset > offset:
                raise damage

        batches = walk_past_damage(self.file, start, end, check_damage, chunk_bytes=LOOK_UP_BYTES)
        for step, (position, header) in enumerate(batches):
            if header.base_offset + header.last_offset_delta >= offset:
                return position
            if position - start > _SUSPICIOUS_WALK_BYTES and step > _SUSPICIOUS_WALK_STEPS:
                self._replace_index("it has gaps")
        return end

    def batch_at(self, position: int) -> BatchHeader:
        """The header of the batch at `position`; Damage where none begins there."""
        for _, header in walk(self.file, position, self.file.size, chunk_bytes=64):
            return header
        raise Damage(self.file, position, "no batch")

    def marker_at(self, position: int, header: BatchHeader) -> EndTransactionMarker | None:
        """The marker of the batch at `position`; None if it is no control batch, or the cleaner has
        removed its record, or it cannot be read."""
        if not header.is_control or header.count == 0:
            return None
        try:
            return read_marker(self.file.read(position, header.size))
        except KafkaError as error:
            logger.error("unreadable marker", path=self.file.path, position=position, error=error)
            return None

    def batches_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """All batches from `position` to the end; raises Damage at the first bad one."""
        return walk(self.file, position, self.file.size)

    def undamaged_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """All batches from `position` to the end; damage is logged and skipped."""
        size = self.file.size
        return walk_past_damage(self.file, position, size, report_damage, chunk_bytes=LOOK_UP_BYTES)

    def _indexed_position(self, offset: int) -> int:
        """The position of a batch at or before the one that holds `offset`."""
        relative = offset - self.base_offset
        entry = self.index.floor(relative)
        if entry is not None and not self._is_valid(entry):
            self._replace_index(f"no batch for entry {entry}")
            entry = self.index.floor(relative)
        return entry[1] if entry is not None else 0

    def _is_valid(self, entry: tuple[int, int]) -> bool:
        """Whether an entry of the offset index points to a batch that ends at its offset."""
        relative, position = entry
        if not 0 <= position < self.file.size:
            return False
        try:
            header = self.batch_at(position)
        except Damage:
            return False
        return header.base_offset + header.last_offset_delta == self.base_offset + relative

    def offset_after(self, position: int) -> int | None:
        """An offset above those of all batches that begin before `position`, by the offset index;
        None if it has no entry there."""
        entry = self.index.ceiling(position, field=1)
        if entry is None or not self._is_valid(entry):
            return None
        return self.base_offset + entry[0]

    # Timestamps

    def load_times(self) -> None:
        """Load the highest timestamp: from the time index where that is consistent, else from all
        batches. The last time entry is consistent if its batch agrees and no batch after the last
        offset entry is later, which it would be if the time index had been cut."""
        if self.has_times:
            return
        indexed, timed = self.index.last(), self.time_index.last()
        start = indexed[1] if indexed else 0
        is_valid = indexed is None or self._is_valid(indexed)
        if is_valid and timed is not None:
            position = self.time_position(timed)
            is_valid = position is not None
            start = max(start, position or 0)
            self.max_timestamp = timed[0]
            self.max_timestamp_offset = self.base_offset + timed[1]
        if is_valid:
            self.has_times = True
            for _, header in self.undamaged_from(start):
                if header.max_timestamp > self.max_timestamp:
                    is_valid = start == 0
                    self.max_timestamp = header.max_timestamp
                    self.max_timestamp_offset = header.last_offset
        if not is_valid:
            logger.warning("time index rebuilt from the log", path=self.file.path)
            self.rebuild_indexes()
            self.finish()

    def time_position(self, entry: tuple[int, int]) -> int | None:
        """The position of the batch of a time entry; None where the batch does not agree."""
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
        """The end of the segment, by the last index entry and the few batches after it; None
        where these are inconsistent. Indexes and timestamps stay as they are on disk."""
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
        """Drop index entries that are at or above `offset` or wrong; returns the position from
        which `replay` has to see the batches to bring the indexes up to date again."""
        self.boundaries.clear()
        relative = max(0, offset - self.base_offset)
        index = self.index
        index.drop_from(0, relative)
        entry = index.last()
        while entry is not None and not self._is_valid(entry):
            count = len(index)
            index.drop_from(0, entry[0])
            if len(index) >= count:  # the entries are not in order
                index.clear()
            entry = index.last()
        self.has_times = True
        self.bytes_since_index = 0
        if entry is not None and self._resume_times(entry):
            return entry[1]
        index.clear()
        self.time_index.clear()
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        return 0

    def _resume_times(self, entry: tuple[int, int]) -> bool:
        """Load the highest timestamp up to the batch of the offset entry from the time index: its
        last entry must be right, and no batch between the two later than it."""
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
        """Update indexes and timestamps as the append of this batch at this position did."""
        last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_index > self.index_interval_bytes:
            self.add_index_entry(last_offset, position)
        self.bytes_since_index += header.length + 12

    def truncate(self, end_offset: int, position: int) -> None:
        """Cut the file at `position`, durably, where the batches below `end_offset` end; indexes
        and timestamps follow. Damage below is logged and stays."""
        self.file.truncate(position)
        self.file.sync()
        if self.transaction_index.drop_from(end_offset):
            for file in self.transaction_index.files():
                file.sync()
        for kept_at, header in self.undamaged_from(self.resume(end_offset)):
            self.replay(kept_at, header)

    def index_next_batch(self) -> None:
        """Give the next batch of `replay` an index entry, however close the last one is."""
        self.bytes_since_index = FOREVER

    def rebuild_indexes(self) -> None:
        """Rebuild both indexes from the batches; damaged batches are skipped."""
        self.index_is_rebuilt = True
        self.index.clear()
        self.time_index.clear()
        start = self.resume(self.base_offset)
        for position, header in self.undamaged_from(start):
            self.replay(position, header)

    def _replace_index(self, reason: str) -> None:
        if not self.index_is_rebuilt:
            logger.warning("index rebuilt from the log", path=self.file.path, reason=reason)
            self.rebuild_indexes()

    # Completing and removing

    @property
    def has_unwritten_entries(self) -> bool:
        """Whether an index has entries that are not in its file yet."""
        return bool(self.index.unwritten or self.time_index.unwritten)

    def write_tails(self) -> None:
        """Write index entries to their files, the time index first."""
        self.time_index.write()
        self.index.write()

    def finish(self) -> None:
        """Write all index entries, the highest timestamp as the last time entry."""
        if self.has_times:
            self._add_time_entry()
        self.time_index.write(also_empty=True)
        self.index.write(also_empty=True)

    def rewrite_from(self, position: int) -> None:
        """After a crash: let the next sync write the batches from `position` on, although the
        kernel may take their pages for clean, and both indexes once the segment is complete."""
        self.file.rewrite(position, self.file.size - position)
        self.rewrites_indexes = True

    def complete(self) -> list[File]:
        """Finish the indexes and return the files that have to be synced now."""
        self.finish()
        if self.rewrites_indexes:
            for file in self.files()[1:]:
                file.rewrite(0, file.size)
            self.rewrites_indexes = False
        return self.files()

    def files(self) -> list[File]:
        """The file of the batches and the open ones of the indexes."""
        return [
            self.file,
            *self.index.files(),
            *self.time_index.files(),
            *self.transaction_index.files(),
        ]

    def close(self) -> None:
        self.file.close()
        self._close_indexes()

    def _close_indexes(self) -> None:
        self.index.close()
        self.time_index.close()
        self.transaction_index.close()

    def names(self) -> list[str]:
        return [offset_name(self.base_offset, kind) + self.suffix for kind in SEGMENT_SUFFIXES]

    def change_suffix(self, disk: Disk, directory: str, suffix: str) -> None:
        """Rename the files; open handles and slices follow. The log file is the last: recovery
        decides by it, and an index can be missing."""
        for kind in reversed(SEGMENT_SUFFIXES):
            name = f"{directory}/{offset_name(self.base_offset, kind)}"
            try:
                disk.rename(name + self.suffix, name + suffix)
            except FileNotFoundError:
                if kind == LOG:
                    raise DiskError(name + self.suffix, "the file is missing") from None
        stem = f"{directory}/{self.base_offset:020d}"
        self.index.moved(stem + INDEX + suffix)
        self.time_index.moved(stem + TIME_INDEX + suffix)
        self.transaction_index.moved(stem + TRANSACTION_INDEX + suffix)
        self.suffix = suffix

    def remove(self, disk: Disk, directory: str) -> None:
        """Unlink the files; slices that are being sent keep their open file."""
        self._close_indexes()
        for name in self.names():
            disk.remove(f"{directory}/{name}")
