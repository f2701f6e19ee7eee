"""Sparse indexes of a segment: offset to position, timestamp to offset.

An index is a file of fixed-size entries in ascending order and a tail of newer ones in memory. The
tail is written when it grows, at checkpoints, at a roll and at close, and is not synced before the
segment is complete. So no entry can be relied on: the caller checks the batch that it points to.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import itemgetter

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk, DiskError, File

OFFSET_ENTRY = struct.Struct(">ii")  # relative offset, position
TIME_ENTRY = struct.Struct(">qi")  # timestamp, relative offset

_BLOCK_ENTRIES = 512

logger = EventLogger(__name__)

Entry = tuple[int, int]


class SparseIndex:
    """Entries in strictly ascending order of both fields, unless the file is damaged."""

    __slots__ = ("_disk", "_file", "_layout", "_path", "_tail", "_written")

    def __init__(self, disk: Disk, path: str, layout: struct.Struct, *, is_new: bool) -> None:
        self._tail: list[Entry] = []
        self._disk = disk
        self._path = path
        self._layout = layout
        self._file: File | None = None
        self._written = 0 if is_new else -1  # -1: the file is not opened yet

    def __len__(self) -> int:
        return self._count_written() + len(self._tail)

    @property
    def unwritten(self) -> int:
        """How many entries are not in the file yet."""
        return len(self._tail)

    def add(self, entry: Entry) -> None:
        """Add an entry after all others, in memory."""
        self._tail.append(entry)

    def last(self) -> Entry | None:
        if self._tail:
            return self._tail[-1]
        count = self._count_written()
        return self._entry(count - 1) if count else None

    def floor(self, key: int, *, field: int = 0) -> Entry | None:
        """The last entry whose field 0 or 1 is at most `key`."""
        tail = self._tail
        if tail and tail[0][field] <= key:
            return tail[bisect_right(tail, key, key=_FIELDS[field]) - 1]
        count = self._count_written()
        if not count:
            return None
        low, high = 0, (count + _BLOCK_ENTRIES - 1) // _BLOCK_ENTRIES
        block = b""  # the last block whose first entry is at or below the key
        while low < high:
            middle = (low + high) // 2
            read = self._read(middle * _BLOCK_ENTRIES, _BLOCK_ENTRIES)
            if read and self._layout.unpack_from(read)[field] <= key:
                block = read
                low = middle + 1
            else:
                high = middle
        return self._floor_in(block, key, field) if block else None

    def ceiling(self, key: int, *, field: int = 0) -> Entry | None:
        """The first entry whose field 0 or 1 is at least `key`."""
        low, high = 0, self._count_written()
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[field] < key:
                low = middle + 1
            else:
                high = middle
        if low < self._count_written():
            return self._entry(low)
        found = bisect_left(self._tail, key, key=_FIELDS[field])
        return self._tail[found] if found < len(self._tail) else None

    def drop_from(self, field: int, value: int) -> None:
        """Drop the entries whose field 0 or 1 is at or above `value`, and all after them."""

        def is_kept(entry: Entry) -> bool:
            return entry[field] < value

        tail = self._tail
        if tail and is_kept(tail[0]):
            del tail[bisect_left(tail, value, key=_FIELDS[field]) :]
            return
        tail.clear()
        low, high = 0, self._count_written()
        while low < high:
            middle = (low + high) // 2
            if is_kept(self._entry(middle)):
                low = middle + 1
            else:
                high = middle
        self._cut(low)

    def clear(self) -> None:
        self._tail.clear()
        self._cut(0)

    def write(self, *, also_empty: bool = False) -> None:
        """Write the tail to the file; if that fails, it stays in memory and a later call retries.

        `also_empty` creates the file even without an entry, as Kafka expects it.
        """
        if not self._tail and not also_empty:
            return
        try:
            count = self._count_written()
            file = self._opened()
            if file.size != count * self._layout.size:
                file.truncate(count * self._layout.size)
            if self._tail:
                pack = self._layout.pack
                file.append([b"".join([pack(*entry) for entry in self._tail])])
        except DiskError as error:
            logger.warning("index not written", path=self._path, error=str(error))
            return
        self._written = count + len(self._tail)
        self._tail.clear()

    def files(self) -> list[File]:
        """The file, if it is open."""
        return [] if self._file is None else [self._file]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def moved(self, path: str) -> None:
        """The file was renamed to `path`; an open handle has followed it."""
        self._path = path

    def _count_written(self) -> int:
        if self._written < 0:
            try:
                self._file = self._disk.open(self._path)
                self._written = self._file.size // self._layout.size
            except FileNotFoundError:
                self._written = 0
        return self._written

    def _opened(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
        return self._file

    def _cut(self, count: int) -> None:
        if count < self._count_written():
            self._opened().truncate(count * self._layout.size)
            self._written = count

    def _read(self, first: int, count: int) -> bytes:
        size = self._layout.size
        count = min(count, self._written - first)
        data = self._opened().read(first * size, count * size)
        return data[: len(data) // size * size]

    def _entry(self, number: int) -> Entry:
        data = self._read(number, 1)
        # The file shrank: treat the entry as damaged.
        return self._layout.unpack(data) if data else (-1, -1)

    def _floor_in(self, block: bytes, key: int, field: int) -> Entry:
        unpack_from, size = self._layout.unpack_from, self._layout.size
        low, high = 1, len(block) // size
        while low < high:
            middle = (low + high) // 2
            if unpack_from(block, middle * size)[field] <= key:
                low = middle + 1
            else:
                high = middle
        return unpack_from(block, (low - 1) * size)


_FIELDS: tuple[Callable[[Entry], int], ...] = (itemgetter(0), itemgetter(1))
