"""Scans the batches of a segment file with few large reads.

`walk` reads headers only and skips from batch to batch; `check` and `read_batches` read everything
and compare CRCs. All raise Damage at the first position that does not hold a sound batch.
"""

import re
from collections.abc import Callable, Iterator

from sawlog.core.ports import File
from sawlog.protocol.record_batch import HEADER_SIZE, MAGIC, BatchHeader, crc_matches, read_header

CHUNK_BYTES = 1 << 20
_SMALLEST_BATCH = HEADER_SIZE


class Damage(Exception):
    """The bytes at `position` are not a batch, or not one that can follow the batch before."""

    def __init__(self, file: File, position: int, reason: str) -> None:
        super().__init__(f"{file.path}: {reason} at position {position}")
        self.file = file
        self.position = position
        self.reason = reason


class UnreadableRecords(Damage):
    """The batch matches its CRC, and its records cannot be read: a producer has sent it so, and
    every replica has the same bytes."""


def check_header(file: File, header: BatchHeader, position: int, end: int) -> None:
    """Raise Damage unless the header describes a batch that lies wholly before `end`."""
    if header.magic != MAGIC:
        raise Damage(file, position, f"magic {header.magic}")
    size = header.length + 12
    if size < _SMALLEST_BATCH:
        raise Damage(file, position, f"a length of {header.length}")
    if position + size > end:
        raise Damage(file, position, f"a batch of {size} bytes, cut off after {end - position},")
    if header.last_offset_delta < 0 or header.base_offset < 0:
        raise Damage(file, position, f"offsets {header.base_offset} to {header.last_offset}")


def walk(
    file: File, position: int, end: int, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from `position` up to `end`; Damage at the first bad one.

    The part of a batch beyond the chunk is skipped, not read. Chunks grow from `chunk_bytes` on as
    long as batches follow closely.
    """
    chunk = b""
    chunk_start = position
    while position < end:
        if position + HEADER_SIZE > chunk_start + len(chunk):
            if chunk and position < chunk_start + 2 * len(chunk):
                chunk_bytes = min(2 * chunk_bytes, CHUNK_BYTES)
            chunk_start = position
            chunk = file.read(position, min(chunk_bytes, end - position))
            if len(chunk) < HEADER_SIZE:
                raise Damage(file, position, f"only {len(chunk)} bytes")
        header = read_header(chunk, position - chunk_start)
        check_header(file, header, position, end)
        yield position, header
        position += header.length + 12


def read_batches(
    file: File, position: int, end: int, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[bytes, int, BatchHeader]]:
    """Read whole batches and compare their CRCs; Damage at the first bad one.

    Each batch is given as a chunk of the file, its position in the chunk, and its header.
    """
    chunk = b""
    chunk_start = position
    while position < end:
        at = position - chunk_start
        header = None
        if len(chunk) - at >= HEADER_SIZE:
            header = read_header(chunk, at)
            check_header(file, header, position, end)
        if header is None or len(chunk) - at < header.length + 12:
            wanted = max(chunk_bytes, 0 if header is None else header.length + 12)
            chunk = file.read(position, min(wanted, end - position))
            chunk_start, at = position, 0
            if len(chunk) < HEADER_SIZE:
                raise Damage(file, position, f"only {len(chunk)} bytes")
            if header is None:
                header = read_header(chunk)
                check_header(file, header, position, end)
                if len(chunk) < header.length + 12:
                    chunk = file.read(position, header.length + 12)
        if not crc_matches(chunk, header, at):
            raise Damage(file, position, "a batch that does not match its CRC")
        yield chunk, at, header
        position += header.length + 12


def check(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Like `walk`, but every byte is read and every CRC compared."""
    for _, _, header in read_batches(file, position, end):
        yield position, header
        position += header.length + 12


def walk_past_damage(
    file: File,
    position: int,
    end: int,
    report: Callable[[Damage, BatchHeader | None], None],
    *,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[tuple[int, BatchHeader]]:
    """Like `walk`, but continues with the next sound batch, CRC included. `report` is called with
    every damage and the header of the next sound batch, or None."""
    while True:
        try:
            yield from walk(file, position, end, chunk_bytes=chunk_bytes)
        except Damage as damage:
            found = find_next(file, damage.position + 1, end)
            report(damage, None if found is None else found[1])
            if found is None:
                return
            position = found[0]
        else:
            return


_POSSIBLE_HEADER = re.compile(rb"(?=\0\0[\s\S]{14}\x02)")  # an offset below 2^48; the magic number


def find_next(file: File, position: int, end: int) -> tuple[int, BatchHeader] | None:
    """The first sound batch at or after `position`, found by its content: after damage the length
    field of the batch before cannot be used."""
    while end - position >= HEADER_SIZE:
        chunk = file.read(position, min(CHUNK_BYTES, end - position))
        for match in _POSSIBLE_HEADER.finditer(chunk):
            header = sound_batch(file, position + match.start(), end)
            if header is not None:
                return position + match.start(), header
        if len(chunk) <= HEADER_SIZE:
            break
        position += len(chunk) - HEADER_SIZE
    return None


def sound_batch(file: File, position: int, end: int) -> BatchHeader | None:
    """The header of the batch at `position` if it is whole and its CRC matches, else None."""
    try:
        header = read_header(file.read(position, HEADER_SIZE).ljust(HEADER_SIZE, b"\0"))
        check_header(file, header, position, end)
    except Damage:
        return None
    batch = file.read(position, header.length + 12)
    return header if crc_matches(batch, header) else None
