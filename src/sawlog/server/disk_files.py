"""Open files of the real disk, with fewer descriptors than files.

A `RealFile` is a handle for good; its descriptor comes when it is needed and goes when others need
theirs more. While a descriptor is pinned (a slice is being sent, an fsync is under way) it stays.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sawlog.core.ports import Buffer, DiskError, DiskFull, TooManyOpenFiles

if TYPE_CHECKING:
    from sawlog.server.disk import RealDisk
    from sawlog.server.disk_threads import Done

_pwritev = os.pwritev
_pread = os.pread

NO_DESCRIPTOR = -1


def disk_error(path: str, error: OSError) -> DiskError:
    """The port's word for what the system said."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(path, reason)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return TooManyOpenFiles(path, reason)
    return DiskError(path, reason)


class RealFile:
    """One file of the data directory.

    Invariant: `size` is the file's size whenever no call is under way; nobody else writes to it.
    """

    __slots__ = (
        "_descriptor",
        "_disk",
        "_pins",
        "is_closed",
        "is_dirty",
        "path",
        "size",
        "was_used",
    )

    def __init__(self, disk: "RealDisk", path: str, size: int) -> None:
        self.path = path
        self.size = size
        self.is_closed = False
        self.is_dirty = False  # written to since the last sync began
        self.was_used = False
        self._disk = disk
        self._descriptor = NO_DESCRIPTOR
        self._pins = 0

    def append(self, buffers: Sequence[Buffer]) -> int:
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._open()
        self.was_used = self.is_dirty = True
        position = self.size
        expected = 0
        for buffer in buffers:
            expected += len(buffer)
        try:
            written = _pwritev(descriptor, buffers, position)
            if written != expected:
                self._write_rest(descriptor, b"".join(buffers), position, written)
        except OSError as error:
            self._cut_back(descriptor, position)
            raise disk_error(self.path, error) from error
        self.size = position + expected
        return position

    def read(self, position: int, length: int) -> bytes:
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._open()
        self.was_used = True
        try:
            return _pread(descriptor, length, position)
        except OSError as error:
            raise disk_error(self.path, error) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._open(), size)
        except OSError as error:
            raise disk_error(self.path, error) from error
        self.size = size

    def sync(self) -> None:
        self.is_dirty = False
        try:
            os.fdatasync(self._open())
        except OSError as error:
            raise disk_error(self.path, error) from error

    def sync_later(self, done: "Done") -> None:
        try:
            descriptor = self.pin()
        except DiskError as error:
            failure = error
            self._disk.threads.run(lambda: _raise(failure), done)
            return
        self.is_dirty = False
        path = self.path

        def finished(error: int) -> None:
            self.unpin()
            done(disk_error(path, OSError(error, os.strerror(error))) if error else None)

        self._disk.syncs.sync(descriptor, finished)

    @contextmanager
    def descriptor(self) -> Iterator[int]:
        """The descriptor, pinned inside the `with`; for sendfile and the like."""
        descriptor = self.pin()
        try:
            yield descriptor
        finally:
            self.unpin()

    def pin(self) -> int:
        """The descriptor, which stays open until as many `unpin` as `pin` were called."""
        descriptor = self._open()
        self._pins += 1
        return descriptor

    def unpin(self) -> None:
        self._pins -= 1
        if self.is_closed and self._pins == 0:
            self.drop_descriptor()

    def close(self) -> None:
        self.is_closed = True
        self._disk.forget(self)
        self.drop_descriptor()

    def drop_descriptor(self) -> bool:
        """Closes the descriptor unless it is pinned; tells whether there is none now."""
        if self._pins:
            return False
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = NO_DESCRIPTOR
            self._disk.descriptor_dropped(self)
        return True

    def adopt(self, descriptor: int) -> None:
        """A descriptor that is open already, from the call that created the file."""
        self._descriptor = descriptor

    def _open(self) -> int:
        self.was_used = True
        if self._descriptor < 0:
            self._descriptor = self._disk.open_descriptor(self, os.O_RDWR)
        return self._descriptor

    def _write_rest(self, descriptor: int, data: bytes, position: int, written: int) -> None:
        """A short write is mostly the last one before an error: go on and find out."""
        while written < len(data):
            count = os.pwrite(descriptor, data[written:], position + written)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += count

    def _cut_back(self, descriptor: int, size: int) -> None:
        """Best effort: the next append writes at `size` whether or not the cut succeeds."""
        try:
            os.ftruncate(descriptor, size)
        except OSError:
            pass


def _raise(error: DiskError) -> None:
    raise error
