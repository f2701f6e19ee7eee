"""The aborted transactions of a segment: `.txnindex`, in Kafka's format.

An entry belongs to the segment that has the abort marker, and entries are in the order of their
markers. The file exists from the first entry on. Unlike the sparse indexes it cannot be checked by
one look at the log, so it is written before the marker and synced with it: an entry below the
recovery point is on disk, and recovery makes the later ones again.
"""

import struct
from collections.abc import Iterable, Iterator

from sawlog.core.ports import Disk, File
from sawlog.storage.open_transactions import AbortedTransaction

ENTRY = struct.Struct(">hqqqq")  # version, producer id, first, last and last stable offset
VERSION = 0

_BLOCK_ENTRIES = 512


def encode_aborted(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join([ENTRY.pack(VERSION, *entry) for entry in entries])


def error_in(
    base_offset: int, previous: AbortedTransaction | None, version: int, entry: AbortedTransaction
) -> str:
    """Why an entry of the segment that begins at `base_offset` cannot follow `previous`; empty if
    it can."""
    if version != VERSION:
        return f"an entry of version {version}: expected {VERSION}"
    if not 0 <= entry.first_offset < entry.last_offset:
        return f"a transaction from offset {entry.first_offset} to {entry.last_offset}"
    if entry.last_offset < base_offset:
        return f"a marker at offset {entry.last_offset}, before the segment"
    if entry.producer_id < 0 or entry.last_stable_offset < 0:
        return f"producer {entry.producer_id}, last stable offset {entry.last_stable_offset}"
    if previous is not None and entry.last_offset <= previous.last_offset:
        return f"last offset {entry.last_offset} follows {previous.last_offset}"
    return ""


class TransactionIndex:
    """The aborted transactions whose markers are in one segment.

    Invariant: unless the file is damaged (`check_once`), last offsets ascend.
    """

    __slots__ = ("_count", "_disk", "_file", "_is_checked", "_path")

    def __init__(self, disk: Disk, path: str, *, is_new: bool) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._count = 0 if is_new else -1  # -1: the file is not opened yet
        self._is_checked = is_new

    def __len__(self) -> int:
        if self._count < 0:
            try:
                self._file = self._disk.open(self._path)
                self._count = self._file.size // ENTRY.size
            except FileNotFoundError:
                self._count = 0
        return self._count

    def __iter__(self) -> Iterator[AbortedTransaction]:
        for _, entry in self._entries_from(0):
            yield entry

    def add(self, entry: AbortedTransaction) -> bool:
        """Add an entry after all others; returns whether that created the file. DiskError, and
        nothing has changed."""
        count = len(self)
        is_created = self._file is None
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
        if self._file.size != count * ENTRY.size:  # the disk forgot a truncation or a removal
            self._file.truncate(count * ENTRY.size)
        self._file.append([ENTRY.pack(VERSION, *entry)])
        self._count = count + 1
        return is_created

    def drop_from(self, offset: int) -> bool:
        """Drop the entries whose marker is at or above `offset`; returns whether there were any."""
        kept = self._first_from(offset)
        if kept == len(self):
            return False
        assert self._file is not None
        self._file.truncate(kept * ENTRY.size)
        self._count = kept
        return True

    def replace(self, entries: Iterable[AbortedTransaction]) -> None:
        """Set the content, for example of a damaged file."""
        data = encode_aborted(entries)
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
        self._file.truncate(0)
        if data:
            self._file.append([data])
        self._count = len(data) // ENTRY.size

    def check_once(self, base_offset: int) -> str:
        """At the first call: why the file of the segment that begins at `base_offset` cannot be
        right; empty if it can, and from then on."""
        if self._is_checked:
            return ""
        self._is_checked = True
        previous: AbortedTransaction | None = None
        for version, entry in self._entries_from(0):
            error = error_in(base_offset, previous, version, entry)
            if error:
                return error
            previous = entry
        return ""

    def overlapping(
        self, start_offset: int, upper_offset: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """The transactions with records from `start_offset` up to `upper_offset`, and whether those
        are all: markers of others may follow in later segments."""
        found: list[AbortedTransaction] = []
        for _, entry in self._entries_from(self._first_from(start_offset)):
            if entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return found, True
        return found, False

    def files(self) -> list[File]:
        """The file, if it is open."""
        return [] if self._file is None else [self._file]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self._count = -1

    def moved(self, path: str) -> None:
        """The file was renamed to `path`; an open handle has followed it."""
        self._path = path

    def _first_from(self, offset: int) -> int:
        """The number of the first entry whose marker is at or above `offset`."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if next(self._entries_from(middle, 1))[1].last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _entries_from(
        self, number: int, block_entries: int = _BLOCK_ENTRIES
    ) -> Iterator[tuple[int, AbortedTransaction]]:
        """The version and content of each entry from `number` on."""
        count = len(self)
        while number < count and self._file is not None:
            data = self._file.read(number * ENTRY.size, block_entries * ENTRY.size)
            size = len(data) // ENTRY.size * ENTRY.size
            if not size:
                return
            for version, *fields in ENTRY.iter_unpack(data[:size]):
                yield version, AbortedTransaction(*fields)
            number += size // ENTRY.size
