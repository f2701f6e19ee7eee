"""The interfaces through which the deterministic layers reach clock, timers, disk and clients.

`server/` implements them on the real machine, `simulation/` from a seed. A call that can take long
(an fsync, a Store call) returns at once and calls `done` exactly once, later, never from inside the
call itself; every other call returns its result. Paths are strings relative to the data directory,
with `/` as separator.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class DiskError(Exception):
    """A disk operation on `path` failed."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class DiskFull(DiskError):
    """The disk is full (ENOSPC, EDQUOT). The append was undone; reads work, later appends may."""


class TooManyOpenFiles(DiskError):
    """No descriptor is left (EMFILE, ENFILE). The request fails; the log directory stays online."""


class Clock(Protocol):
    def now_ms(self) -> int:
        """Return wall-clock time in milliseconds since 1970."""
        ...

    def monotonic_ms(self) -> int:
        """Return time that never goes back, for timeouts."""
        ...


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class Timer(Protocol):
    def after(self, delay_ms: int, action: Callable[[], None]) -> TimerHandle:
        """Call `action` once, at least `delay_ms` from now, unless cancelled."""
        ...


class Random(Protocol):
    def bytes(self, count: int) -> bytes: ...

    def below(self, limit: int) -> int:
        """Return a number from 0 to `limit - 1`."""
        ...


class File(Protocol):
    """A file that is appended to and read at any position.

    The handle stays valid however many files are open: the implementation opens and closes
    descriptors as needed. `size` is kept in memory.
    """

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end with one writev; return the position of the first byte.

        After a short or failed write the file is truncated to its old size, and DiskFull or
        DiskError is raised.
        """
        ...

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def rewrite(self, position: int, length: int) -> None:
        """Write a range again, in place and with the bytes that it has, so that the next sync
        writes it to the disk. After a failed fsync the kernel takes the pages for clean, and a
        later sync skips them.
        """
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Call fdatasync and wait for it; for start, stop and small files."""
        ...

    def sync_later(self, done: Callable[[DiskError | None], None]) -> None:
        """Call fdatasync off the loop; it covers every byte appended before this call."""
        ...

    def close(self) -> None:
        """Close the descriptor, after the slices that are being sent."""
        ...


class FileSlice(NamedTuple):
    """A range of a file in a response. The server sends slices above 128 KiB with sendfile, and
    reads smaller ones to send them with the bytes around them (`server/send_queue.py`)."""

    file: File
    position: int
    length: int

    def read(self) -> bytes:
        return self.file.read(self.position, self.length)


Part = Buffer | FileSlice
"""A piece of a response: bytes, or a slice of a file."""


class FileSystemSpace(NamedTuple):
    """The size of a file system, and the free part of it that this process may use."""

    total_bytes: int
    usable_bytes: int


class Disk(Protocol):
    """The data directory. A new directory entry is durable only after `sync_directory`."""

    @property
    def root(self) -> str:
        """The absolute path of the data directory, as clients see it."""
        ...

    def space(self) -> FileSystemSpace:
        """Return the space of the file system that holds the data directory."""
        ...

    def open(self, path: str, *, create: bool = False) -> File:
        """Return a handle; FileNotFoundError if the file is missing and `create` is false."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def read_file(self, path: str) -> bytes:
        """Return the content of a small file; FileNotFoundError if it is missing."""
        ...

    def replace(self, path: str, data: Buffer) -> None:
        """Replace a file atomically: write a temporary file, fsync, rename, fsync the directory."""
        ...

    def replace_later(
        self, files: Sequence[tuple[str, Buffer]], done: Callable[[DiskError | None], None]
    ) -> None:
        """Replace several files in order, off the loop."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no error if it exists."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; no error if it is missing."""
        ...

    def remove_later(self, paths: Sequence[str], done: Callable[[DiskError | None], None]) -> None:
        """Remove files off the loop: the unlink of a large file can take long."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove a directory with its content; no error if it is missing."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory; open handles follow it."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def sync_directory_later(self, path: str, done: Callable[[DiskError | None], None]) -> None: ...


class Client(Protocol):
    """The client of a connection."""

    host: str
    port: int


class Exchange(Protocol):
    """One request on a connection that waits for its response.

    The frame's memory belongs to the connection and is reused when `receive` returns: a parked
    request keeps no view of it. Responses are sent in the order of the requests, in whatever order
    they are given.
    """

    @property
    def client(self) -> Client: ...

    def answer(self, parts: Sequence[Part]) -> None:
        """Give the response frame with its length prefix; no parts: nothing is sent (acks=0)."""
        ...

    def close(self, reason: str) -> None:
        """Close the connection instead of a response, for example after a malformed request."""
        ...
