"""Streams the files added to a table: first a snapshot of it, then the files of each version.

A position is the next file to read: a version, the index of a file, and whether the index counts
the files of the whole table or those that the version added. Compactions add nothing. A version
that removes rows is an error unless such versions are skipped. A batch ends before a version with
columns that its reader does not know.

An example with numbers. The table is at version 7 with 3 files. A tail starts at (7, 0, whole);
after those files it is at (8, 0). Version 8 adds two files and version 9 is a compaction: after
both it waits at (10, 0). Version 11 adds a column: a reader that started before stops at (11, 0).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from sawlog.pipeline.delta.delta_log import Action, DeltaLog
from sawlog.pipeline.delta.delta_types import from_json
from sawlog.pipeline.delta.errors import TableError
from sawlog.pipeline.delta.schema_evolution import missing_columns
from sawlog.pipeline.delta.table import schema_of
from sawlog.pipeline.delta.table_storage import open_storage


class TailPosition(NamedTuple):
    version: int
    file: int
    whole: bool = False  # index into the whole table, not into what the version added

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "TailPosition":
        return cls(fields["version"], fields["file"], fields["whole"])

    def is_before(self, other: "TailPosition") -> bool:
        return (self.version, self.file) < (other.version, other.file)


class AddedFile(NamedTuple):
    path: str
    size: int
    partition_values: Mapping[str, str | None]


class SourceRewritten(TableError):
    """The stream cannot continue: the table no longer has what it has read or is to read next.

    The landing recognises this class and its subclasses by name in Spark's text.
    """


class RowsRemoved(SourceRewritten):
    """A version removed rows or columns that the stream has read."""


class SchemaChanged(TableError):
    """A version has columns that the reader of the stream does not know."""


class TableTail:
    """The positions and files of a stream; `columns` are those that its reader knows.

    A position never passes a version with columns that the reader lacks: a batch that would start
    there raises SchemaChanged. So a reader that restarts at its last position with the table's
    current columns loses no value. Without `columns` new columns are ignored.
    """

    def __init__(
        self, path: str, *, columns: pa.Schema | None = None, skip_changes: bool = False
    ) -> None:
        self._storage = open_storage(path)
        self._log = DeltaLog(self._storage)
        self._columns = columns
        self._skip_changes = skip_changes
        self._whole: tuple[int, list[AddedFile]] | None = None
        self._table_id: str | None = None

    @property
    def table_id(self) -> str:
        """The id of the table, which changes if it is deleted and created again."""
        if self._table_id is None:
            self._table_id = str(self._log.snapshot().metadata["id"])
        return self._table_id

    def snapshot_start(self) -> TailPosition:
        """The position before all files of the current snapshot."""
        return TailPosition(self._log.snapshot().version, 0, whole=True)

    def end_position(self) -> TailPosition:
        """The position before the first file of the next version."""
        return TailPosition(self._log.snapshot().version + 1, 0)

    def advance(
        self,
        start: TailPosition,
        *,
        max_files: int | None = None,
        max_bytes: int | None = None,
        target: TailPosition | None = None,
    ) -> TailPosition:
        """The end of a batch that starts at `start`.

        The batch has at least one file if there is one, and ends at `target` or before a version
        with unknown columns at the latest. Raises SchemaChanged if it would start at such a
        version.
        """
        at, files, size = start, 0, 0
        if target is not None and not start.is_before(target):
            return start
        try:
            for file, after in self._walk(start):
                if target is not None and target.is_before(after):
                    break
                if file is not None:
                    files, size = files + 1, size + file.size
                    if files > 1 and _is_over(files, max_files):
                        break
                    if files > 1 and _is_over(size, max_bytes):
                        break
                at = after
        except SchemaChanged:
            if at == start:
                raise
        return at

    def between(self, start: TailPosition, end: TailPosition) -> list[AddedFile]:
        """The files of a batch."""
        found: list[AddedFile] = []
        for file, after in self._walk(start):
            if end.is_before(after):
                break
            if file is not None:
                found.append(file)
            if not after.is_before(end):
                break
        return found

    def _walk(self, start: TailPosition) -> Iterator[tuple[AddedFile | None, TailPosition]]:
        """Each file from `start` on, with the position after it; None for a version without any."""
        version, skipped, whole = start
        while True:
            files = self._files_of_table(version) if whole else self._files_of(version)
            if files is None:
                return
            following = TailPosition(version + 1, 0)
            if not files[skipped:]:
                yield None, following
            for number, file in enumerate(files[skipped:], skipped + 1):
                yield (
                    file,
                    following if number == len(files) else TailPosition(version, number, whole),
                )
            version, skipped, whole = version + 1, 0, False

    def _files_of_table(self, version: int) -> list[AddedFile]:
        """The files of a snapshot in an order that is the same after a restart."""
        if self._whole is None or self._whole[0] != version:
            snapshot = self._log.snapshot(version)
            self._check_columns(version, schema_of(snapshot))
            files = [
                AddedFile(file.path, file.size, file.partition_values)
                for _, file in sorted(snapshot.files.items())
            ]
            self._whole = (version, files)
        return self._whole[1]

    def _files_of(self, version: int) -> list[AddedFile] | None:
        """The files that a version added; None if the version does not exist yet."""
        actions = self._log.entry(version)
        if actions is None:
            self._check_to_come(version)
            return None
        takes_out = any(_takes_out(action) for action in actions)
        if takes_out and not self._skip_changes:
            raise RowsRemoved(
                f"version {version} of {self._storage.root} removed rows, and a stream can only"
                " add: start again with a new checkpoint, or pass over such versions with the"
                " option 'skipChangeCommits'"
            )
        for action in actions:
            if (metadata := action.get("metaData")) is not None:
                self._check_columns(version, from_json(metadata["schemaString"]))
        if takes_out:
            return []
        return [
            AddedFile(body["path"], body["size"], body.get("partitionValues") or {})
            for action in actions
            if (body := action.get("add")) is not None and body["dataChange"]
        ]

    def _check_columns(self, version: int, found: pa.Schema) -> None:
        """Raise SchemaChanged if the reader lacks columns of a version.

        Raises RowsRemoved if the table no longer has these columns, so that a restart would not
        help.
        """
        if self._columns is None or not (unknown := missing_columns(self._columns, found)):
            return
        names = ", ".join(map(repr, unknown))
        if missing_columns(self._columns, schema_of(self._log.snapshot())):
            raise SchemaChanged(
                f"version {version} of {self._storage.root} has columns that the stream started"
                f" without: {names}; restart it from the same checkpoint, without a schema of"
                " its own where it has one"
            )
        if not self._skip_changes:
            raise RowsRemoved(
                f"version {version} of {self._storage.root} has columns that were removed since:"
                f" {names}; start again with a new checkpoint"
            )

    def _check_to_come(self, version: int) -> None:
        """Raise SourceRewritten if a missing entry was cleaned up, or belongs to another table."""
        if version > 0 and self._log.entry(version - 1) is not None:
            return
        newest = self._log.snapshot().version
        if newest >= version:
            raise SourceRewritten(
                f"version {version} of {self._storage.root} was cleaned up before the stream"
                f" read it (the table is at {newest}): start again with a new checkpoint, and keep"
                " the log longer (delta.logRetentionDuration)"
            )
        if newest < version - 1:
            raise SourceRewritten(
                f"version {version - 1} of {self._storage.root} was read by the stream, and the"
                f" table is at {newest}: it was created again, or is an older copy; start again"
                " with a new checkpoint"
            )


def _takes_out(action: Action) -> bool:
    return bool(action.get("remove", {}).get("dataChange"))


def _is_over(amount: int, limit: int | None) -> bool:
    return limit is not None and amount > limit
