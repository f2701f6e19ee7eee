"""What the deterministic part of Sawlog needs from the world, as protocols.

`server/` implements them on the real machine, `simulation/` on a seed. Two rules hold for both:
a call that can take long (an fsync, a Store call) returns at once and is answered later by calling
`done` exactly once, never from inside the call itself; everything else returns its result at once.
Paths are strings relative to the data directory, with `/` between names.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class DiskError(Exception):
    """An operation on the disk failed. `path` is what it was about."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class DiskFull(DiskError):
    """No room (ENOSPC, EDQUOT): the append was cut back; reads go on, later appends may work."""


class TooManyOpenFiles(DiskError):
    """Out of descriptors (EMFILE, ENFILE): this request fails, the directory stays healthy."""


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time, in milliseconds since 1970."""
        ...

    def monotonic_ms(self) -> int:
        """Time that never goes back, for time-outs."""
        ...


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class Timer(Protocol):
    def after(self, delay_ms: int, action: Callable[[], None]) -> TimerHandle:
        """Calls `action` once, `delay_ms` from now or later, unless cancelled."""
        ...


class Random(Protocol):
    def bytes(self, count: int) -> bytes: ...

    def below(self, limit: int) -> int:
        """A number from 0 up to, not including, `limit`."""
        ...


class File(Protocol):
    """One file that is appended to and read at any position.

    The handle stays valid however many files are open: descriptors are opened and closed behind
    it as needed. `size` is kept in memory and costs nothing.
    """

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Writes all buffers at the end with one writev; returns the position of the first byte.

        A short or failed write is cut back to the old size, then DiskFull or DiskError is raised.
        """
        ...

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """fdatasync, now and here; for starts, stops and small files."""
        ...

    def sync_later(self, done: Callable[[DiskError | None], None]) -> None:
        """fdatasync off the loop; covers every byte appended before this call."""
        ...

    def close(self) -> None:
        """Gives the descriptor back. Slices under way keep it open until they are sent."""
        ...


class FileSlice(NamedTuple):
    """Bytes of a file that are sent as they are; what comes after `length` is not looked at."""

    file: File
    position: int
    length: int

    def read(self) -> bytes:
        return self.file.read(self.position, self.length)


Part = Buffer | FileSlice
"""A piece of a response: bytes, or a slice of a file that the shell sends without copying."""


class Disk(Protocol):
    """The data directory. Directory entries made here are durable only after `sync_directory`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """A handle on the file; FileNotFoundError where it is missing and `create` is off."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        ...

    def read_file(self, path: str) -> bytes:
        """The whole of a small file; FileNotFoundError where it is missing."""
        ...

    def replace(self, path: str, data: Buffer) -> None:
        """Writes aside, fsyncs, renames over `path`, fsyncs the directory: all or nothing."""
        ...

    def replace_later(
        self, files: Sequence[tuple[str, Buffer]], done: Callable[[DiskError | None], None]
    ) -> None:
        """The same for several files in order, off the loop."""
        ...

    def make_directory(self, path: str) -> None:
        """With its parents; no error where it is there already."""
        ...

    def remove(self, path: str) -> None:
        """A file; no error where it is gone already."""
        ...

    def remove_directory(self, path: str) -> None:
        """With all that is in it; no error where it is gone already."""
        ...

    def rename(self, old: str, new: str) -> None:
        """A file or a directory; open handles follow it."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def sync_directory_later(self, path: str, done: Callable[[DiskError | None], None]) -> None: ...


class Client(Protocol):
    """Who is at the other end of a connection, as far as the broker has to know."""

    host: str
    port: int
    software: tuple[str, str]  # name and version, from ApiVersions (KIP-511)


class Exchange(Protocol):
    """One request on a connection, waiting for its answer.

    The frame's memory belongs to the connection and may be reused once `receive` returned: a
    handler that parks keeps no view of it. Answers leave in the order of the requests, whatever
    the order in which they are given.
    """

    @property
    def client(self) -> Client: ...

    def answer(self, parts: Sequence[Part]) -> None:
        """The response frame, its length prefix included; empty: nothing is sent (acks=0)."""
        ...

    def close(self, reason: str) -> None:
        """Closes the connection: the request was not one, or the client must see it end."""
        ...
