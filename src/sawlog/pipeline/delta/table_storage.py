"""The storage of a table: the few operations that a table needs, on a directory or object store.

Exactly-once depends on `put_if_absent`: if several writers create the same name, exactly one
succeeds, and its file is complete and durable when the call returns. Data files become durable by
`sync`, which a writer calls before it reports them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from sawlog.pipeline.delta.table_path import AnyPath, TablePath, is_object_store, table_path

LOG = "_delta_log"
TEMPORARY_PREFIX = ".sawlog-"  # prefix of a log entry being written


class StoredFile(NamedTuple):
    path: str  # relative to the table, decoded
    size: int
    modified_ms: int


class OutputFile(Protocol):
    """A data file being written; it ends with `close` or `abort`."""

    @property
    def sink(self) -> Any:
        """The file object that a Parquet writer writes to."""

    def tell(self) -> int:
        """The number of bytes written."""

    def close(self) -> None:
        """Complete the file."""

    def abort(self) -> None:
        """Drop the file: no file of this name remains."""


class TableStorage(Protocol):
    """A directory or the prefix of an object store. Paths are relative to it.

    Files never change once they are complete. Missing files raise FileNotFoundError, other failures
    OSError; neither shows credentials. An instance can be pickled to other processes.
    """

    @property
    def root(self) -> TablePath: ...

    @property
    def max_open_files(self) -> int:
        """How many files one task may write at the same time, to bound its memory."""

    @property
    def has_ascii_names(self) -> bool:
        """Whether names of data files have only ASCII characters."""

    def full(self, path: str) -> str:
        """The path or URL of a file, for messages and other readers."""

    def read(self, path: str) -> bytes: ...

    def stat(self, path: str) -> StoredFile | None:
        """The size and time of a file; None if it does not exist."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory, unordered; empty if it does not exist."""

    def walk(self) -> Iterator[StoredFile]:
        """All files of the table and its log, except those deleted during the walk."""

    def open_input(self, path: str) -> pa.NativeFile: ...

    def open_output(self, path: str) -> OutputFile:
        """Create a file and the directories above it."""

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""

    def sync(self, paths: Iterable[str]) -> None:
        """Make these files and the directories above them durable."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file with these bytes, durably; False if another writer created the name.

        `data` must be unique to this call: an object store takes an object with the same bytes for
        the one that this call has created, because the response to a request can get lost.
        """

    def put(self, path: str, data: bytes) -> None:
        """Create or replace a file, atomically and durably; not for files of the table."""

    def delta_options(self) -> Mapping[str, str] | None:
        """The `storage_options` with which deltalake opens the table."""


def open_storage(path: AnyPath) -> TableStorage:
    """The storage of a path or URL. Raises UnsupportedStorage."""
    if is_object_store(path):
        from sawlog.pipeline.delta.object_storage import ObjectStorage  # its library loads slowly

        return ObjectStorage(table_path(path))
    from sawlog.pipeline.delta.local_storage import LocalStorage

    return LocalStorage(path)
