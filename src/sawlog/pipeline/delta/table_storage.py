"""The directory in which a table lies: the few things that a table asks of a file system.

`put_if_absent` is what exactly-once stands on: of two that create the same name exactly one
succeeds, and when it returns, the file is whole and on disk. Data files become durable by `sync`,
which a writer calls before anybody may refer to them.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa

from sawlog.pipeline.delta.errors import UnsupportedStorage

LOG = "_delta_log"
TEMPORARY_PREFIX = ".sawlog-"  # begins the name of a log entry that is being written
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV})


class StoredFile(NamedTuple):
    path: str  # relative to the table, as the file system spells it
    size: int
    modified_ms: int


class Storage:
    """A directory on this machine, or one that is mounted here. Paths are relative to it."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        text = os.fspath(root)
        if "://" in text:
            scheme, _, rest = text.partition("://")
            if scheme != "file":
                raise UnsupportedStorage(
                    f"{text}: tables lie in a directory, of this machine or mounted on all of"
                    " them; object stores are not served"
                )
            text = rest
        self.root = os.path.abspath(text)

    def __repr__(self) -> str:
        return f"Storage({self.root!r})"

    def full(self, path: str) -> str:
        return os.path.join(self.root, path)

    def read(self, path: str) -> bytes:
        with open(self.full(path), "rb") as file:
            return file.read()

    def stat(self, path: str) -> StoredFile | None:
        """None where there is no such file."""
        try:
            found = os.stat(self.full(path))
        except FileNotFoundError:
            return None
        return StoredFile(path, found.st_size, found.st_mtime_ns // 1_000_000)

    def names(self, directory: str) -> list[str]:
        """What is in a directory, unordered; nothing where it does not exist."""
        try:
            return os.listdir(self.full(directory))
        except FileNotFoundError:
            return []

    def walk(self) -> Iterator[StoredFile]:
        """All files of the table and of its log; one that vanishes meanwhile is left out."""
        for directory, _, names in os.walk(self.root):
            for name in names:
                found = self.stat(os.path.relpath(os.path.join(directory, name), self.root))
                if found is not None:
                    yield found

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.OSFile(self.full(path), "rb")

    def open_output(self, path: str) -> pa.NativeFile:
        """A new file, with the directories above it."""
        full = self.full(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        return pa.OSFile(full, "wb")

    def delete(self, path: str) -> bool:
        """False where somebody else was first."""
        try:
            os.unlink(self.full(path))
        except FileNotFoundError:
            return False
        return True

    def sync(self, paths: Iterable[str]) -> None:
        """When it returns, these files and the directories that lead to them are on disk."""
        directories = {""}
        for path in paths:
            _sync(self.full(path))
            above = os.path.dirname(path)
            while above:
                directories.add(above)
                above = os.path.dirname(above)
        for directory in sorted(directories, reverse=True):
            _sync(self.full(directory))
        _sync(os.path.dirname(self.root))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Creates a file with these bytes, durably; False where there is one of that name."""
        full = self.full(path)
        directory = os.path.dirname(full)
        os.makedirs(directory, exist_ok=True)
        with _temporary_file(directory, data) as aside:
            try:
                os.link(aside, full)
            except FileExistsError:
                # On NFS the answer to a link that was made can get lost, and asking again finds it.
                if os.stat(aside).st_nlink == 1:
                    return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                raise UnsupportedStorage(
                    f"{self.root} lies on a file system without hard links, so two writers of a"
                    " table could both believe that they were first; use another one"
                ) from error
        _sync(directory)
        return True


@contextmanager
def _temporary_file(directory: str, data: bytes) -> Iterator[str]:
    aside = os.path.join(directory, f"{TEMPORARY_PREFIX}{uuid4().hex}")
    try:
        with open(aside, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield aside
    finally:
        with suppress(FileNotFoundError):
            os.unlink(aside)


def _sync(full: str) -> None:
    descriptor = os.open(full, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
