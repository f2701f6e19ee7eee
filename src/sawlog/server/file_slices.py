"""Slices of log files in responses.

A slice pins its file's descriptor until its last byte is sent, so that neither retention nor the
limit on open files can close it.
"""

import errno
import os
from collections.abc import Iterable, Sequence
from typing import Protocol, cast

from sawlog.core.ports import Buffer, FileSlice, Part

_PROBE_STEP_BYTES = 1 << 17  # the kernel's usual read-ahead


class PinnableFile(Protocol):
    """A file of the real disk, whose descriptor can be pinned."""

    def pin(self) -> int: ...

    def unpin(self) -> None: ...


class PinnedSlice:
    """The unsent part of a slice, and the descriptor to send it from."""

    __slots__ = ("_file", "descriptor", "position", "remaining")

    def __init__(self, part: FileSlice) -> None:
        self._file = cast("PinnableFile", part.file)
        self.descriptor = self._file.pin()
        self.position = part.position
        self.remaining = part.length

    def __len__(self) -> int:
        return self.remaining

    def advance(self, count: int) -> None:
        self.position += count
        self.remaining -= count

    def release(self) -> None:
        self._file.unpin()


Outgoing = Buffer | PinnedSlice


def pin(parts: Sequence[Part]) -> list[Outgoing]:
    """Pin the slices among the parts, all or none; DiskError if a file cannot be opened."""
    pinned: list[Outgoing] = []
    try:
        for part in parts:
            if isinstance(part, FileSlice):
                if part.length:
                    pinned.append(PinnedSlice(part))
            elif part:
                pinned.append(part)
    except BaseException:
        release(pinned)
        raise
    return pinned


def release(parts: Iterable[Outgoing]) -> None:
    """Unpin slices that will not be sent."""
    for part in parts:
        if isinstance(part, PinnedSlice):
            part.release()


def memory_bytes(parts: Iterable[Outgoing]) -> int:
    """Return how many bytes of the parts are in memory, not in files."""
    return sum(len(part) for part in parts if not isinstance(part, PinnedSlice))


class PageCache:
    """Finds out whether bytes of a file are in the page cache."""

    __slots__ = ("_byte",)

    def __init__(self) -> None:
        self._byte = [bytearray(1)]

    def holds(self, descriptor: int, position: int, count: int) -> bool:
        """Probe one byte in every read-ahead window, and the last byte."""
        last = position + count - 1
        try:
            for probe in range(position, last, _PROBE_STEP_BYTES):
                os.preadv(descriptor, self._byte, probe, os.RWF_NOWAIT)
            os.preadv(descriptor, self._byte, last, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            # The file system does not support it, as tmpfs, whose files are in memory.
        return True

    def read_into(self, descriptor: int, position: int, buffer: memoryview) -> bool:
        """Fill `buffer` from the page cache; False if bytes are not cached or missing."""
        try:
            return os.preadv(descriptor, [buffer], position, os.RWF_NOWAIT) == len(buffer)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            return os.preadv(descriptor, [buffer], position) == len(buffer)
