"""The directory of a table: the few file system operations that a table needs.

Exactly-once depends on `put_if_absent`: if two writers create the same name, exactly one succeeds,
and its file is complete and durable when the call returns. Data files become durable by `sync`,
which a writer calls before it reports them.
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
TEMPORARY_PREFIX = ".sawlog-"  # prefix of a log entry being written
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV})


class StoredFile(NamedTuple):
    path: str  # relative to the table, decoded
    size: int
    modified_ms: int


class Storage:
    """A local or mounted directory. Paths are relative to it."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        text = os.fspath(root)
        if "://" in text:
            scheme, _, rest = text.partition("://")
            if scheme != "file":
                raise UnsupportedStorage(
                    f"{text}: a table needs a directory, local or mounted on all machines; object"
                    " stores are not supported"
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
        """The size and time of a file; None if it does not exist."""
        try:
            found = os.stat(self.full(path))
        except FileNotFoundError:
            return None
        return StoredFile(path, found.st_size, found.st_mtime_ns // 1_000_000)

    def names(self, directory: str) -> list[str]:
        """The names in a directory, unordered; empty if it does not exist."""
        try:
            return os.listdir(self.full(directory))
        except FileNotFoundError:
            return []

    def walk(self) -> Iterator[StoredFile]:
        """All files of the table and its log, except those deleted during the walk."""
        for directory, _, names in os.walk(self.root):
            for name in names:
                found = self.stat(os.path.relpath(os.path.join(directory, name), self.root))
                if found is not None:
                    yield found

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.OSFile(self.full(path), "rb")

    def open_output(self, path: str) -> pa.NativeFile:
        """Create a file and the directories above it."""
        full = self.full(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        return pa.OSFile(full, "wb")

    def delete(self, path: str) -> bool:
        """Delete a file; False if it does not exist."""
        try:
            os.unlink(self.full(path))
        except FileNotFoundError:
            return False
        return True

    def sync(self, paths: Iterable[str]) -> None:
        """Make these files and the directories above them durable."""
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
        """Create a file with these bytes, durably; False if the name exists."""
        full = self.full(path)
        directory = os.path.dirname(full)
        os.makedirs(directory, exist_ok=True)
        with _temporary_file(directory, data) as temporary:
            try:
                os.link(temporary, full)
            except FileExistsError:
                # On NFS the reply to a successful link can get lost, and the retry finds the name.
                if os.stat(temporary).st_nlink == 1:
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
    temporary = os.path.join(directory, f"{TEMPORARY_PREFIX}{uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _sync(full: str) -> None:
    descriptor = os.open(full, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
