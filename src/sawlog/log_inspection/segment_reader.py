"""Read segment files and their indexes without a broker, as Kafka's DumpLogSegments does.

Files are never changed. After a corrupt batch, reading continues at the next position that the
offset index knows. Message formats 0 and 1 are reported, not decoded.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sawlog.protocol.record_batch import HEADER_SIZE, MAGIC, BatchHeader, crc_matches, read_header
from sawlog.storage.log_files import (
    DELETED_DIRECTORY,
    INDEX,
    LOG,
    parse_offset_name,
    parse_partition_directory,
)
from sawlog.storage.sparse_index import OFFSET_ENTRY

_MIN_LENGTH = HEADER_SIZE - 12  # the length field does not count the offset and itself
_ZERO_CHUNK_BYTES = 64 * 1024


class SegmentFile(NamedTuple):
    log: Path

    @property
    def base_offset(self) -> int:
        return int(self.log.stem)

    @property
    def partition(self) -> str:
        return self.log.parent.name

    def sibling(self, suffix: str) -> Path:
        return self.log.with_suffix(suffix)


class Problem(NamedTuple):
    """Something wrong in a file, with its position and, if known, the log offset."""

    path: Path
    position: int
    offset: int | None
    reason: str


class StoredBatch(NamedTuple):
    """A batch of a segment, complete but with an unchecked CRC."""

    position: int
    header: BatchHeader
    data: bytes

    @property
    def has_valid_crc(self) -> bool:
        return crc_matches(self.data, self.header)


class FoundSegments(NamedTuple):
    segments: list[SegmentFile]
    partitions: list[Path]  # directories of partitions
    unreadable: list[OSError]


def find_segments(path: Path) -> FoundSegments:
    """Find the segments of a data directory, a partition directory or a single `.log` file."""
    if not path.is_dir():
        return FoundSegments([SegmentFile(path)] if _is_log(path.name) else [], [], [])
    found = FoundSegments([], [], [])
    for directory, _, names in os.walk(path, onerror=found.unreadable.append):
        here = Path(directory)
        found.segments.extend(SegmentFile(here / name) for name in names if _is_log(name))
        is_partition = parse_partition_directory(here.name) or any(map(parse_offset_name, names))
        if is_partition and not directory.endswith(DELETED_DIRECTORY):
            found.partitions.append(here)
    found.segments.sort(key=lambda segment: (str(segment.log.parent), segment.base_offset))
    found.partitions.sort()
    return found


def _is_log(name: str) -> bool:
    parsed = parse_offset_name(name)
    return parsed is not None and parsed[1] == LOG


def read_batches(segment: SegmentFile) -> Iterator[StoredBatch | Problem]:
    """Yield the batches of a segment in file order, and a Problem for each unreadable range."""
    position = 0
    next_offset = segment.base_offset
    with segment.log.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while position < size:
            found = _read_batch(file, segment, position, size)
            if isinstance(found, StoredBatch):
                yield found
                position += found.header.size
                next_offset = found.header.next_offset
                continue
            if found is None:  # a preallocated rest of zeros
                return
            resumed = _next_indexed_position(segment, position, size)
            skipped = (size if resumed is None else resumed) - position
            yield Problem(segment.log, position, next_offset, f"{found}; {skipped} bytes skipped")
            if resumed is None:
                return
            position = resumed


def _read_batch(
    file: BinaryIO, segment: SegmentFile, position: int, size: int
) -> StoredBatch | str | None:
    """Return the batch at `position`, why there is none, or None if only zeros follow."""
    file.seek(position)
    front = file.read(HEADER_SIZE)
    if not any(front) and _is_zero_from(file, position):
        return None
    if len(front) < HEADER_SIZE:
        return f"truncated batch header of {len(front)} bytes"
    header = read_header(front)
    if header.magic != MAGIC:
        return f"magic {header.magic} instead of {MAGIC}"
    if header.length < _MIN_LENGTH:
        return f"invalid batch size of {header.size} bytes"
    if header.size > size - position:
        return f"truncated batch: {size - position} of {header.size} bytes"
    if header.base_offset < segment.base_offset:
        return f"batch with offset {header.base_offset}, below the segment's base offset"
    return StoredBatch(position, header, front + file.read(header.size - HEADER_SIZE))


def _is_zero_from(file: BinaryIO, position: int) -> bool:
    file.seek(position)
    while block := file.read(_ZERO_CHUNK_BYTES):
        if any(block):
            return False
    return True


def _next_indexed_position(segment: SegmentFile, position: int, size: int) -> int | None:
    """Return the first position after `position` at which a batch starts by the offset index."""
    for _, known in read_index_entries(segment.sibling(INDEX), OFFSET_ENTRY):
        if position < known < size:
            return known
    return None


def read_index_entries(path: Path, layout: struct.Struct) -> list[tuple[int, int]]:
    """Return the entries of an index without preallocated zeros; none if the file is missing."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = len(data) - len(data) % layout.size
    entries = list(layout.iter_unpack(data[:whole]))
    while entries and not any(entries[-1]):
        entries.pop()
    return entries
