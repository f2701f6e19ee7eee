"""Follows the files that are added to a table: first those that it has, then those of each version.

A position is the next file to read: a version, the number of a file in it, and whether the whole
table as of that version is meant or only what the version added. A merge of small files adds
nothing. A version that takes rows out is an error, unless such versions are to be skipped. A batch
ends before a version with columns that its reader does not know.

An example with numbers. The table is at version 7 with 3 files. A follower begins at (7, 0, whole);
after those files it is at (8, 0). Version 8 adds two files, version 9 only merged some: after both
it is at (10, 0), where it waits. Version 11 brings a new column: a reader that began before is led
to (11, 0) and no further.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from sawlog.pipeline.delta.delta_log import Action, DeltaLog
from sawlog.pipeline.delta.delta_types import from_json
from sawlog.pipeline.delta.errors import TableError
from sawlog.pipeline.delta.schema_evolution import missing_columns
from sawlog.pipeline.delta.table import schema_of
from sawlog.pipeline.delta.table_storage import Storage


class Position(NamedTuple):
    version: int
    file: int
    whole: bool = False  # of the table as of the version, not of what the version added

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Position":
        return cls(fields["version"], fields["file"], fields["whole"])

    def is_before(self, other: "Position") -> bool:
        return (self.version, self.file) < (other.version, other.file)


class AddedFile(NamedTuple):
    path: str
    size: int
    partition_values: Mapping[str, str | None]


class RowsRemoved(TableError):
    """A version of a followed table took rows or columns out."""


class SchemaChanged(TableError):
    """A version of a followed table has columns that its reader does not know."""


class TableTail:
    """`columns` are those that its reader knows; without them new columns are not noticed.

    A position never passes a version with columns that the reader lacks: a batch that would begin
    there raises SchemaChanged. So a reader that begins again at its last position, with the columns
    that the table has then, has lost no value.
    """

    def __init__(
        self, path: str, *, columns: pa.Schema | None = None, skip_changes: bool = False
    ) -> None:
        self._storage = Storage(path)
        self._log = DeltaLog(self._storage)
        self._columns = columns
        self._skip_changes = skip_changes
        self._whole: tuple[int, list[AddedFile]] | None = None
        self._table_id: str | None = None

    @property
    def table_id(self) -> str:
        """By it a table is told from one that was made anew in its place."""
        if self._table_id is None:
            self._table_id = str(self._log.snapshot().metadata["id"])
        return self._table_id

    def snapshot_start(self) -> Position:
        """Where one begins who wants the whole table."""
        return Position(self._log.snapshot().version, 0, whole=True)

    def end_position(self) -> Position:
        """Where one begins who wants only what comes."""
        return Position(self._log.snapshot().version + 1, 0)

    def advance(
        self,
        start: Position,
        *,
        max_files: int | None = None,
        max_bytes: int | None = None,
        target: Position | None = None,
    ) -> Position:
        """How far a batch goes that begins at `start`: one file at least where there is one, and
        never beyond `target` or to a version with unknown columns. SchemaChanged where it begins at
        such a version.
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

    def between(self, start: Position, end: Position) -> list[AddedFile]:
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

    def _walk(self, start: Position) -> Iterator[tuple[AddedFile | None, Position]]:
        """Each file from there on with the position after it; None for a version without any."""
        version, skipped, whole = start
        while True:
            files = self._files_of_table(version) if whole else self._files_of(version)
            if files is None:
                return
            following = Position(version + 1, 0)
            if not files[skipped:]:
                yield None, following
            for number, file in enumerate(files[skipped:], skipped + 1):
                yield file, following if number == len(files) else Position(version, number, whole)
            version, skipped, whole = version + 1, 0, False

    def _files_of_table(self, version: int) -> list[AddedFile]:
        """In an order that a restart finds again."""
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
        """What a version added; None where it has not come yet."""
        actions = self._log.entry(version)
        if actions is None:
            self._check_to_come(version)
            return None
        takes_out = any(_takes_out(action) for action in actions)
        if takes_out and not self._skip_changes:
            raise RowsRemoved(
                f"version {version} of {self._storage.root} took rows out, and a stream can only"
                " add: begin anew with another checkpoint, or pass over such versions with the"
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
        """SchemaChanged where the reader lacks some of the columns that a version has; RowsRemoved
        where the table lacks them by now, too, so that to begin again would not help.
        """
        if self._columns is None or not (unknown := missing_columns(self._columns, found)):
            return
        names = ", ".join(map(repr, unknown))
        if missing_columns(self._columns, schema_of(self._log.snapshot())):
            raise SchemaChanged(
                f"version {version} of {self._storage.root} has columns that the stream began"
                f" without: {names}; begin it again from the same checkpoint, without a schema of"
                " its own where it has one"
            )
        if not self._skip_changes:
            raise RowsRemoved(
                f"version {version} of {self._storage.root} has columns that were taken out since:"
                f" {names}; begin anew with another checkpoint"
            )

    def _check_to_come(self, version: int) -> None:
        """An entry that is not there may be one that is not there any more."""
        if version > 0 and self._log.entry(version - 1) is not None:
            return
        newest = self._log.snapshot().version
        if newest >= version:
            raise TableError(
                f"version {version} of {self._storage.root} was cleaned away before the stream"
                f" read it (the table is at {newest}): begin anew with another checkpoint, and keep"
                " the log longer (delta.logRetentionDuration)"
            )
        if newest < version - 1:
            raise TableError(
                f"version {version - 1} of {self._storage.root} was read by the stream, and the"
                f" table is at {newest}: it was made anew, or is an older copy; begin anew with"
                " another checkpoint"
            )


def _takes_out(action: Action) -> bool:
    return bool(action.get("remove", {}).get("dataChange"))


def _is_over(amount: int, limit: int | None) -> bool:
    return limit is not None and amount > limit
