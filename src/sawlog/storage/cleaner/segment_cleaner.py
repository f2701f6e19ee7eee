"""The work of one cleaning: build the offset map, then copy the live records of the segments.

This is the part that takes processor time. It runs wherever a `CleanerWorker` puts it, so it knows
closed segments by their files only, and returns values that can be sent between processes. It
writes `.cleaned` files, which the log puts in the place of the old ones (`segment_swap.py`).
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from sawlog.core.errors import KafkaError
from sawlog.core.ports import Disk, File
from sawlog.protocol.control_records import EndTransactionMarker, read_marker
from sawlog.protocol.record_batch import BatchHeader
from sawlog.storage.batch_scan import Damage, UnreadableRecords, read_batches
from sawlog.storage.cleaner.batch_filter import (
    BatchFilter,
    CleanerStats,
    RetentionRules,
    is_known,
    open_records,
)
from sawlog.storage.cleaner.cleaned_transactions import CleanedTransactions
from sawlog.storage.cleaner.offset_map import OffsetMap, map_keys
from sawlog.storage.log_files import CLEANED, LOG, offset_name
from sawlog.storage.open_transactions import AbortedTransaction
from sawlog.storage.segment import Segment


@dataclass(frozen=True, slots=True)
class MapRequest:
    """Build the offset map of the dirty part of a log, or of its beginning if not all fits."""

    directory: str
    segments: tuple[int, ...]  # base offsets of the segments with dirty records
    start_offset: int  # the first dirty offset
    end_offset: int  # the first offset that may not be cleaned
    memory_bytes: int
    chunk_bytes: int
    aborted: tuple[AbortedTransaction, ...] = ()  # with records in these segments


@dataclass(frozen=True, slots=True)
class MapResult:
    end_offset: int  # the first offset that is not in the map
    keys: int
    bytes_read: int
    is_full: bool
    keyless_records: int = 0  # of batches that `clean` does not open


@dataclass(frozen=True, slots=True)
class CleanRequest:
    """Copy the live records of neighbouring segments into one `.cleaned` segment."""

    directory: str
    segments: tuple[int, ...]  # base offsets
    next_segment: int  # the base offset of the segment after them
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    last_offsets: Mapping[int, int]  # of active producers, within these segments
    index_interval_bytes: int
    chunk_bytes: int
    last_epochs: Mapping[int, int] = field(default_factory=dict)
    """Of active producers without a batch in the log."""
    aborted: tuple[AbortedTransaction, ...] = ()  # with records in these segments


@dataclass(frozen=True, slots=True)
class CleanResult:
    stats: CleanerStats = field(default_factory=CleanerStats)


class SegmentCleaner:
    """The cleaning of one log at a time; `build_map` begins with a new map.

    Both methods are generators that yield, after every chunk, the number of bytes that were read
    and written for it, and return their result.
    """

    def __init__(self) -> None:
        self._offsets = OffsetMap(0)
        self._transactions = CleanedTransactions()  # a transaction may span groups

    def build_map(self, disk: Disk, request: MapRequest) -> Generator[int, None, MapResult]:
        """Damage at a batch that is damaged or whose records cannot be read."""
        self._offsets = offsets = OffsetMap(request.memory_bytes, request.start_offset)
        self._transactions = CleanedTransactions()
        transactions = CleanedTransactions()
        # Markers before the first dirty offset are not read, so none of their transactions counts.
        transactions.begin(
            entry for entry in request.aborted if entry.last_offset >= request.start_offset
        )
        bytes_read = keyless = 0
        is_full = False
        chunk = b""
        for source, data, at, header in _batches(
            disk, request.directory, request.segments, request.end_offset, request.chunk_bytes
        ):
            if header.last_offset < request.start_offset:
                continue
            if header.is_control:
                if header.count:
                    transactions.may_remove(header, source.marker(data, at, header))
            elif not transactions.is_aborted(header) and header.count:
                if not offsets.has_room_for(header.count):
                    is_full = True
                    break
                keys = self._add(source, data, at, header)
                if is_known(header, offsets):
                    keyless += keys.count(None)
            offsets.advance(header.last_offset)
            bytes_read += header.size
            if data is not chunk:
                yield len(chunk)
                chunk = data
        if not is_full:
            offsets.advance(request.end_offset - 1)
        return MapResult(offsets.latest_offset + 1, len(offsets), bytes_read, is_full, keyless)

    def _add(
        self, source: "_Source", data: bytes, at: int, header: BatchHeader
    ) -> Sequence[bytes | None]:
        """Add the records of a batch; return their keys."""
        try:
            _, columns = open_records(data, at, header)
        except KafkaError as error:
            raise source.damage(header, error) from error
        base = header.base_offset
        self._offsets.add(map_keys(columns.keys), [base + delta for delta in columns.offset_deltas])
        return columns.keys

    def clean(self, disk: Disk, request: CleanRequest) -> Generator[int, None, CleanResult]:
        """Write the group's `.cleaned` files and sync them; Damage and DiskError as above."""
        stats = CleanerStats()
        rules = RetentionRules(
            request.now_ms,
            request.delete_retention_ms,
            request.end_offset,
            request.last_offsets,
            request.last_epochs,
        )
        self._transactions.begin(request.aborted)
        batch_filter = BatchFilter(self._offsets, rules, stats, self._transactions)
        cleaned = Segment(
            disk,
            request.directory,
            request.segments[0],
            created_ms=request.now_ms,
            index_interval_bytes=request.index_interval_bytes,
            is_new=True,
            suffix=CLEANED,
        )
        output: list[bytes | bytearray] = []
        chunk = b""
        position = written = 0
        for source, data, at, header in _batches(
            disk, request.directory, request.segments, request.next_segment, request.chunk_bytes
        ):
            if data is not chunk:
                cleaned.file.append((b"".join(output),))
                output.clear()
                yield len(chunk) + position - written
                chunk, written = data, position
            try:
                filtered = batch_filter.filter(data, at, header)
            except KafkaError as error:
                raise source.damage(header, error) from error
            if filtered is not None:
                output.append(filtered[0])
                cleaned.replay(position, filtered[1])
                position += len(filtered[0])
        cleaned.file.append((b"".join(output),))
        if self._transactions.kept:
            cleaned.transaction_index.replace(self._transactions.kept)
        cleaned.finish()
        for file in cleaned.files():
            file.sync()
        return CleanResult(stats)


class _Source(NamedTuple):
    """Where a batch was read."""

    file: File
    position: int

    def marker(self, data: bytes, at: int, header: BatchHeader) -> EndTransactionMarker:
        """The marker of a control batch with a record."""
        try:
            return read_marker(memoryview(data)[at : at + header.size])
        except KafkaError as error:
            raise self.damage(header, error) from error

    def damage(self, header: BatchHeader, error: KafkaError) -> Damage:
        """A batch with a valid CRC whose records cannot be read."""
        return UnreadableRecords(
            self.file, self.position, f"the batch at offset {header.base_offset}: {error}"
        )


def _batches(
    disk: Disk, directory: str, segments: tuple[int, ...], end_offset: int, chunk_bytes: int
) -> Iterator[tuple[_Source, bytes, int, BatchHeader]]:
    """All batches of these segments, each as a chunk, its position there, and its header.

    Damage if a CRC does not match, or if an offset, which no CRC covers, cannot be right: offsets
    ascend, and lie before the next segment, `end_offset` after the last one.
    """
    next_offset = segments[0] if segments else 0
    for base_offset, limit_offset in pairwise((*segments, end_offset)):
        file = disk.open(f"{directory}/{offset_name(base_offset, LOG)}")
        position = 0
        for data, at, header in read_batches(file, 0, file.size, chunk_bytes=chunk_bytes):
            if not next_offset <= header.base_offset <= header.last_offset < limit_offset:
                raise Damage(
                    file,
                    position,
                    f"offsets {header.base_offset} to {header.last_offset},"
                    f" expected {next_offset} to {limit_offset - 1}",
                )
            next_offset = header.next_offset
            yield _Source(file, position), data, at, header
            position += header.size
