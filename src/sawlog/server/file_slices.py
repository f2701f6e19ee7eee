"""Slices of files on their way out.

A slice holds its file's descriptor from the moment the answer is given until the last byte has
left, so that neither retention nor the bound on open files can take it away in between.
"""

import errno
import os
from collections.abc import Iterable, Sequence
from typing import Protocol, cast

from sawlog.core.ports import Buffer, FileSlice, Part

_PROBE_STEP_BYTES = 1 << 17  # the kernel's usual read-ahead: what lies between two hits is there


class PinnableFile(Protocol):
    """A file of the real disk: its descriptor can be held open."""

    def pin(self) -> int: ...

    def unpin(self) -> None: ...


class PinnedSlice:
    """The part of a slice that has not been sent, and the descriptor to send it from."""

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
    """The parts with their slices pinned; all or none, DiskError where a file cannot be had."""
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
    """Unpins what will not be sent."""
    for part in parts:
        if isinstance(part, PinnedSlice):
            part.release()


def memory_bytes(parts: Iterable[Outgoing]) -> int:
    """How much of them is in memory, not in a file."""
    return sum(len(part) for part in parts if not isinstance(part, PinnedSlice))


class PageCache:
    """Tells whether bytes of a file can be read without waiting for the disk."""

    __slots__ = ("_byte",)

    def __init__(self) -> None:
        self._byte = [bytearray(1)]

    def holds(self, descriptor: int, position: int, count: int) -> bool:
        """Looks at one byte in every read-ahead's length, and at the last one."""
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
            # A file system that cannot tell, tmpfs above all: its files are in memory.
        return True

    def read_into(self, descriptor: int, position: int, room: memoryview) -> bool:
        """Fills `room`, or says no where that would have to wait (or there is not so much)."""
        try:
            return os.preadv(descriptor, [room], position, os.RWF_NOWAIT) == len(room)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            return os.preadv(descriptor, [room], position) == len(room)
