"""A table in a directory, local or mounted on all machines that use it."""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

import pyarrow as pa

from sawlog.pipeline.delta.errors import UnsupportedStorage
from sawlog.pipeline.delta.table_path import AnyPath, TablePath
from sawlog.pipeline.delta.table_storage import TEMPORARY_PREFIX, StoredFile

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV})


class LocalFile:
    """A file being written; implements OutputFile."""

    def __init__(self, full: str) -> None:
        self._full = full
        self.sink = pa.OSFile(full, "wb")

    def tell(self) -> int:
        return int(self.sink.tell())

    def close(self) -> None:
        self.sink.close()

    def abort(self) -> None:
        self.sink.close()
        with suppress(FileNotFoundError):
            os.unlink(self._full)


class LocalStorage:
    """Implements TableStorage: a name is created by a hard link to a complete, synced file."""

    max_open_files = 32
    has_ascii_names = False  # Spark decodes escapes in directory names one byte at a time

    def __init__(self, root: AnyPath) -> None:
        text = os.fspath(root)
        if "://" in text:
            scheme, _, rest = text.partition("://")
            if scheme != "file":
                raise UnsupportedStorage(
                    f"{scheme}:// is not supported: a table is in a directory, or in an object"
                    " store (s3://, gs:// or az://)"
                )
            text = rest
        self.root = TablePath(os.path.abspath(text))

    def __repr__(self) -> str:
        return f"LocalStorage({str(self.root)!r})"

    def full(self, path: str) -> str:
        return os.path.join(self.root, path)

    def read(self, path: str) -> bytes:
        with open(self.full(path), "rb") as file:
            return file.read()

    def stat(self, path: str) -> StoredFile | None:
        try:
            found = os.stat(self.full(path))
        except FileNotFoundError:
            return None
        return StoredFile(path, found.st_size, found.st_mtime_ns // 1_000_000)

    def names(self, directory: str) -> list[str]:
        try:
            return os.listdir(self.full(directory))
        except FileNotFoundError:
            return []

    def walk(self) -> Iterator[StoredFile]:
        for directory, _, names in os.walk(self.root):
            for name in names:
                found = self.stat(os.path.relpath(os.path.join(directory, name), self.root))
                if found is not None:
                    yield found

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.OSFile(self.full(path), "rb")

    def open_output(self, path: str) -> LocalFile:
        full = self.full(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        return LocalFile(full)

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.full(path))

    def sync(self, paths: Iterable[str]) -> None:
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

    def put(self, path: str, data: bytes) -> None:
        full = self.full(path)
        directory = os.path.dirname(full)
        os.makedirs(directory, exist_ok=True)
        with _temporary_file(directory, data) as temporary:
            os.replace(temporary, full)
        _sync(directory)

    def delta_options(self) -> None:
        """None: deltalake needs no options for a directory."""


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
