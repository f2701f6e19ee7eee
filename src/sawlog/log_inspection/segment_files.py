"""Segment files as they lie on disk: found, walked batch by batch, judged against their indexes.

Nothing is changed and nothing trusted: a batch that cannot be read is reported with its place, and
the walk goes on behind it where its length or the index shows the way. Old message formats (magic
0 and 1) are told from damage by their place in the file, not read.
"""

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sawlog.protocol.record_batch import HEADER_SIZE, MAGIC, BatchHeader, crc_matches, read_header
from sawlog.storage.log_files import (
    DELETED_DIRECTORY,
    parse_offset_name,
    parse_partition_directory,
)

OFFSET_ENTRY = struct.Struct(">ii")  # relative offset, position
TIME_ENTRY = struct.Struct(">qi")  # timestamp, relative offset
_SEGMENT_NAME = re.compile(r"\d{20}\.log")
_SMALLEST_LENGTH = HEADER_SIZE - 12
_ZERO_PROBE_BYTES = 64 * 1024


class Segment(NamedTuple):
    log: Path

    @property
    def base_offset(self) -> int:
        return int(self.log.stem)

    @property
    def partition(self) -> str:
        return self.log.parent.name

    def sibling(self, suffix: str) -> Path:
        return self.log.with_suffix(suffix)


class Damage(NamedTuple):
    """Something wrong in a file: where, and at which offset as far as that can be told."""

    path: Path
    position: int
    offset: int | None
    what: str


class Batch(NamedTuple):
    """A whole batch with its bytes; whether they match the CRC is looked at by `is_sound`."""

    position: int
    header: BatchHeader
    data: bytes

    @property
    def is_sound(self) -> bool:
        return crc_matches(self.data, self.header)


class Found(NamedTuple):
    segments: list[Segment]
    partitions: list[Path]  # the directories that a partition's files are in
    unreadable: list[OSError]


def find_segments(path: Path) -> Found:
    """What is at or below a path: one file, a partition's directory, or a data directory."""
    if not path.is_dir():
        return Found([Segment(path)] if _SEGMENT_NAME.fullmatch(path.name) else [], [], [])
    found = Found([], [], [])
    for directory, _, names in os.walk(path, onerror=found.unreadable.append):
        here = Path(directory)
        found.segments.extend(Segment(here / name) for name in names if _is_log(name))
        is_partition = parse_partition_directory(here.name) or any(map(parse_offset_name, names))
        if is_partition and not directory.endswith(DELETED_DIRECTORY):
            found.partitions.append(here)
    found.segments.sort(key=lambda segment: (str(segment.log.parent), segment.base_offset))
    found.partitions.sort()
    return found


def _is_log(name: str) -> bool:
    return _SEGMENT_NAME.fullmatch(name) is not None


def walk(segment: Segment) -> Iterator[Batch | Damage]:
    """The batches of a segment in the order of the file, and what stands between that is none."""
    position = 0
    next_offset = segment.base_offset
    with segment.log.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while position < size:
            found = _read_at(file, segment, position, size)
            if isinstance(found, Batch):
                yield found
                position += found.header.size
                next_offset = found.header.next_offset
                continue
            if found is None:  # room that was taken ahead of need
                return
            resumed = _next_known_position(segment, position, size)
            skipped = (size if resumed is None else resumed) - position
            yield Damage(
                segment.log, position, next_offset, f"{found}; {skipped} bytes cannot be read"
            )
            if resumed is None:
                return
            position = resumed


def _read_at(file: BinaryIO, segment: Segment, position: int, size: int) -> Batch | str | None:
    """The batch there; what is wrong; None where zeros follow up to the end of the file."""
    file.seek(position)
    front = file.read(HEADER_SIZE)
    if not any(front) and _is_zero_from(file, position):
        return None
    if len(front) < HEADER_SIZE:
        return f"a header cut off after {len(front)} bytes"
    header = read_header(front)
    if header.magic != MAGIC:
        return f"no batch of magic {MAGIC}, the byte says {header.magic}"
    if header.length < _SMALLEST_LENGTH:
        return f"a batch of {header.size} bytes, which none can be"
    if header.size > size - position:
        return f"a batch of {header.size} bytes cut off after {size - position}"
    if header.base_offset < segment.base_offset:
        return f"a batch that claims the offset {header.base_offset}, below the segment's first"
    return Batch(position, header, front + file.read(header.size - HEADER_SIZE))


def _is_zero_from(file: BinaryIO, position: int) -> bool:
    file.seek(position)
    while block := file.read(_ZERO_PROBE_BYTES):
        if any(block):
            return False
    return True


def _next_known_position(segment: Segment, position: int, size: int) -> int | None:
    """Where the index says that a later batch begins."""
    for _, known in read_entries(segment.sibling(".index"), OFFSET_ENTRY):
        if position < known < size:
            return known
    return None


def read_entries(path: Path, layout: struct.Struct) -> list[tuple[int, int]]:
    """An index's entries, without the zeros of room taken ahead; empty where there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = len(data) - len(data) % layout.size
    entries = list(layout.iter_unpack(data[:whole]))
    while entries and not any(entries[-1]):
        entries.pop()
    return entries
