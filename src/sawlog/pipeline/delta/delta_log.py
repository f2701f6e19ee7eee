"""The log of a Delta table: its numbered entries, and the snapshot that they add up to.

An entry is created atomically and never changes (`TableStorage.put_if_absent`). The snapshot of a
version is the newest readable checkpoint at or below it plus the entries after that. Tables that
need more than Delta's first protocol are rejected.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sawlog.pipeline.delta.errors import CorruptLog, TableNotFound, UnsupportedProtocol
from sawlog.pipeline.delta.table_storage import LOG, TableStorage

READER_VERSION = 1
WRITER_VERSION = 2
TOMBSTONE_RETENTION_MS = 7 * 24 * 60 * 60 * 1000  # how long removed files are kept
_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")

Action = dict[str, Any]


class ActiveFile(NamedTuple):
    """A file that is part of the table, from its `add` action."""

    path: str  # relative, URL-encoded
    size: int
    partition_values: Mapping[str, str | None]
    modified_ms: int
    stats: str | None

    @property
    def rows(self) -> int | None:
        """The row count; None if the writer left out statistics."""
        count = None if self.stats is None else json.loads(self.stats).get("numRecords")
        return None if count is None else int(count)


class Snapshot:
    """The content of a table at one version; `apply` advances it to the next."""

    def __init__(self) -> None:
        self.version = -1
        self.protocol: Action = {}
        self.metadata: Action = {}
        self.transactions: dict[str, int] = {}
        self.files: dict[str, ActiveFile] = {}
        self.tombstones: dict[str, int] = {}  # path to time of removal
        self.committed_ms: int | None = None

    def apply(self, version: int, actions: Iterable[Action]) -> None:
        """Apply the actions of a version. Raises UnsupportedProtocol, also if it is called again:
        the snapshot does not pass a version that this writer must not follow.
        """
        for action in actions:
            for kind, body in action.items():
                self._apply_one(kind, body)
        _check_protocol(self.protocol)
        self.version = version

    def expire_tombstones(self, before_ms: int) -> None:
        """Drop tombstones older than `before_ms`, as a checkpoint does."""
        self.tombstones = {
            path: since for path, since in self.tombstones.items() if since >= before_ms
        }

    def _apply_one(self, kind: str, body: Action) -> None:
        match kind:
            case "add":
                path = body["path"]
                self.tombstones.pop(path, None)
                self.files[path] = ActiveFile(
                    path,
                    body["size"],
                    body.get("partitionValues") or {},
                    body.get("modificationTime") or 0,
                    body.get("stats"),
                )
            case "remove":
                self.files.pop(body["path"], None)
                self.tombstones[body["path"]] = body.get("deletionTimestamp") or 0
            case "txn":
                self.transactions[body["appId"]] = body["version"]
            case "metaData":
                self.metadata = body
            case "protocol":
                self.protocol = body
            case "commitInfo":
                self.committed_ms = body.get("timestamp")


class DeltaLog:
    """The entries and checkpoints of one table's log."""

    def __init__(self, storage: TableStorage) -> None:
        self._storage = storage

    def append(self, version: int, actions: Iterable[Action]) -> bool:
        """Create an entry for `version`, durably; False if another writer already created it."""
        text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
        return self._storage.put_if_absent(_entry_path(version), text.encode())

    def entry(self, version: int) -> list[Action] | None:
        """The actions of a version; None if it has no entry yet or the entry was cleaned up."""
        try:
            data = self._storage.read(_entry_path(version))
        except FileNotFoundError:
            return None
        try:
            return [json.loads(line) for line in data.splitlines() if line.strip()]
        except ValueError as error:
            raise CorruptLog(
                f"{self._storage.full(_entry_path(version))} is not a log entry: {error}"
            ) from error

    def update(self, snapshot: Snapshot) -> None:
        """Advance a snapshot to the newest version.

        A snapshot whose own log entry was already cleaned up is loaded again, because the entry
        after it is missing too. Raises TableNotFound if the table was deleted or created again.
        """
        while (actions := self.entry(snapshot.version + 1)) is not None:
            snapshot.apply(snapshot.version + 1, actions)
        if self._storage.stat(_entry_path(snapshot.version)) is None:
            newest = self.snapshot()
            if newest.metadata.get("id") != snapshot.metadata.get("id"):
                raise TableNotFound(
                    f"the table in {self._storage.root} was deleted and created again"
                )
            if newest.version > snapshot.version:
                snapshot.__dict__.update(newest.__dict__)

    def versions(self) -> list[int]:
        """The versions that have an entry, in order."""
        names = self._storage.names(LOG)
        return sorted(int(match[1]) for name in names if (match := _ENTRY.fullmatch(name)))

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Load the snapshot of a version, by default the newest. Raises TableNotFound."""
        names = self._storage.names(LOG)
        entries = {int(match[1]) for name in names if (match := _ENTRY.fullmatch(name))}
        checkpoints = _whole_checkpoints(names)
        newest = max([*entries, *checkpoints], default=None)
        if newest is None:
            raise TableNotFound(f"there is no table in {self._storage.root}")
        wanted = newest if version is None else version
        if not 0 <= wanted <= newest:
            raise TableNotFound(f"{self._storage.root} has versions up to {newest}, not {wanted}")
        snapshot = self._start(checkpoints, entries, wanted)
        while snapshot.version < wanted:
            actions = self.entry(snapshot.version + 1)
            if actions is None:
                raise TableNotFound(
                    f"version {wanted} of {self._storage.root} is not available: entry"
                    f" {snapshot.version + 1} of its log was cleaned up or lost"
                )
            snapshot.apply(snapshot.version + 1, actions)
        return snapshot

    def _start(self, checkpoints: dict[int, list[str]], entries: set[int], wanted: int) -> Snapshot:
        """Load the newest readable checkpoint that is followed by every entry up to `wanted`."""
        for version in sorted((found for found in checkpoints if found <= wanted), reverse=True):
            if not all(after in entries for after in range(version + 1, wanted + 1)):
                break
            try:
                return self._from_checkpoint(version, checkpoints[version])
            except (pa.ArrowInvalid, OSError):
                continue  # torn by a power failure: the entries have the same content
        return Snapshot()

    def _from_checkpoint(self, version: int, names: list[str]) -> Snapshot:
        snapshot = Snapshot()
        for name in names:
            with self._storage.open_input(f"{LOG}/{name}") as file:
                parquet = pq.ParquetFile(file)
                wanted = [kind for kind in _KINDS if kind in parquet.schema_arrow.names]
                for batch in parquet.iter_batches(columns=wanted):
                    snapshot.apply(version, _actions_in(batch))
        actions = self.entry(version)
        if actions is not None:
            snapshot.apply(version, (action for action in actions if "commitInfo" in action))
        return snapshot


_KINDS = ("protocol", "metaData", "txn", "add", "remove")
_PARTS = {
    "add": ("path", "size", "partitionValues", "modificationTime", "stats"),
    "remove": ("path", "deletionTimestamp"),
    "txn": ("appId", "version"),
}


def _actions_in(batch: pa.RecordBatch) -> Iterable[Action]:
    """The actions of one batch of a checkpoint, read by column because there may be many files."""
    for kind in batch.schema.names:
        column = batch.column(kind).drop_null()
        names = [part.name for part in column.type]
        names = [name for name in names if name in _PARTS.get(kind, names)]
        values = [_values(column.field(name)) for name in names]
        for row in zip(*values, strict=True):
            pairs = zip(names, row, strict=True)
            yield {kind: {name: value for name, value in pairs if value is not None}}


def _values(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_nested(column.type):
        return [_as_in_an_entry(value, column.type) for value in values]
    return values


def _as_in_an_entry(value: Any, kind: pa.DataType) -> Any:
    """Convert Arrow's list of pairs for a map to the object that a log entry has."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return dict(value)
    if pa.types.is_struct(kind):
        return {part.name: _as_in_an_entry(value[part.name], part.type) for part in kind}
    return value


def _whole_checkpoints(names: list[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for name in sorted(names):
        match = _CHECKPOINT.fullmatch(name)
        if match is None:
            continue
        version = int(match[1])
        if match[3] is None:
            found[version] = [name]
        else:
            parts.setdefault((version, int(match[3])), []).append(name)
    for (version, count), several in parts.items():
        if len(several) == count:
            found.setdefault(version, several)
    return found


def _entry_path(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def _check_protocol(protocol: Action) -> None:
    reader, writer = protocol.get("minReaderVersion", 0), protocol.get("minWriterVersion", 0)
    if reader > READER_VERSION or writer > WRITER_VERSION:
        features = [
            *(protocol.get("readerFeatures") or ()),
            *(protocol.get("writerFeatures") or ()),
        ]
        raise UnsupportedProtocol(
            f"the table needs reader version {reader} and writer version {writer} of Delta"
            f" (features: {', '.join(sorted(set(features))) or 'none named'}); supported are"
            f" {READER_VERSION} and {WRITER_VERSION}"
        )
