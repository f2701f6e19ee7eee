"""Copies of files that share nothing that a later write could change, and durable small files.

A copy is a reflink (FICLONE) where the file system has it, else its bytes are copied by the kernel.
It is never a hard link: the broker appends to and truncates segments in place.
"""

import errno
import fcntl
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_FICLONE = 0x40049409
_CHUNK_BYTES = 16 << 20
_NOT_SUPPORTED = frozenset(
    {
        errno.EOPNOTSUPP,
        errno.ENOTTY,
        errno.EXDEV,
        errno.EINVAL,
        errno.ENOSYS,
        errno.EPERM,
        errno.EACCES,
    }
)


def copy_file(source: BinaryIO, target: BinaryIO, size: int) -> int:
    """Copy the first `size` bytes of `source` into the empty file `target`, and sync them.

    Returns the number of bytes copied: less than `size` if the source is shorter. An OSError has
    the name of the target.
    """
    source_fd, target_fd = source.fileno(), target.fileno()
    try:
        if _clone(source_fd, target_fd):
            copied = min(size, os.fstat(target_fd).st_size)
            os.ftruncate(target_fd, copied)
        else:
            copied = _copy_range(source_fd, target_fd, size)
        os.fsync(target_fd)
    except OSError as error:
        raise OSError(error.errno, error.strerror, target.name) from error
    return copied


def _clone(source: int, target: int) -> bool:
    """Share all blocks of `source` with `target`; False where that is not possible."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in _NOT_SUPPORTED:
            return False
        raise
    return True


def _copy_range(source: int, target: int, size: int) -> int:
    position = 0
    while position < size:
        length = min(_CHUNK_BYTES, size - position)
        try:
            copied = os.copy_file_range(source, target, length, position, position)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            copied = 0
        if not copied:  # also where a file system of a network or of FUSE does nothing
            os.lseek(target, position, os.SEEK_SET)
            copied = os.sendfile(target, source, position, length)
        if not copied:
            break
        position += copied
    return position


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def truncate_file(path: Path, size: int) -> None:
    """Cut a file, durably."""
    with path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def write_new_file(path: Path, data: bytes) -> None:
    """Write a small file and sync it; its directory entry is not synced."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, data: bytes) -> None:
    """Write a small file, complete or not at all; it is on disk when this returns."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        write_new_file(temporary, data)
        temporary.rename(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
