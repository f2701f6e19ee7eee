"""Files of the real disk, more of them than descriptors.

A `RealFile` is a permanent handle. Its descriptor is opened when needed, and closed when the limit
on open files is reached. A pinned descriptor (during a send or an fsync) stays open.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sawlog.core.ports import Buffer, DiskError, DiskFull, TooManyOpenFiles

if TYPE_CHECKING:
    from sawlog.server.disk import RealDisk
    from sawlog.server.disk_threads import OnDone

_pwritev = os.pwritev
_pread = os.pread

NO_DESCRIPTOR = -1
_REWRITE_BYTES = 1 << 20


def disk_error(path: str, error: OSError) -> DiskError:
    """Convert an OSError into a DiskError."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(path, reason)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return TooManyOpenFiles(path, reason)
    return DiskError(path, reason)


class RealFile:
    """One file of the data directory.

    Invariant: `size` is the file's size on disk between calls; no other process writes to it.
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
        self.is_dirty = False  # written since the last sync started
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
            self._undo_write(descriptor, position)
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

    def rewrite(self, position: int, length: int) -> None:
        descriptor = self._open()
        self.is_dirty = True
        end = min(position + length, self.size)
        try:
            while position < end:
                data = _pread(descriptor, min(_REWRITE_BYTES, end - position), position)
                if not data:
                    raise DiskError(self.path, f"the file ends at {position}, expected {end}")
                self._write_rest(descriptor, data, position, 0)
                position += len(data)
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

    def sync_later(self, done: "OnDone") -> None:
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
        """Return the descriptor, pinned inside the `with`."""
        descriptor = self.pin()
        try:
            yield descriptor
        finally:
            self.unpin()

    def pin(self) -> int:
        """Return the descriptor and keep it open until the matching `unpin`."""
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
        """Close the descriptor unless it is pinned; return whether it is closed."""
        if self._pins:
            return False
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = NO_DESCRIPTOR
            self._disk.descriptor_dropped(self)
        return True

    def adopt(self, descriptor: int) -> None:
        """Set the descriptor of a file that was just created."""
        self._descriptor = descriptor

    def _open(self) -> int:
        self.was_used = True
        if self._descriptor < 0:
            self._descriptor = self._disk.open_descriptor(self, os.O_RDWR)
        return self._descriptor

    def _write_rest(self, descriptor: int, data: bytes, position: int, written: int) -> None:
        """Continue after a short write, which usually precedes an error."""
        while written < len(data):
            count = os.pwrite(descriptor, data[written:], position + written)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += count

    def _undo_write(self, descriptor: int, size: int) -> None:
        """Truncate after a failed write. If this fails, the next append still writes at `size`."""
        try:
            os.ftruncate(descriptor, size)
        except OSError:
            pass


def _raise(error: DiskError) -> None:
    raise error
