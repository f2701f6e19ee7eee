"""One Delta table: its content, and transactions that change it.

A transaction is planned on the snapshot of a version and appended as the next version. If another
writer created that version first, the plan runs again on the newest snapshot. So nothing is checked
on one snapshot and committed on another.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa

from sawlog import __version__
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.data_files import (
    DataFile,
    add_action,
    decode_path,
    delete_uncommitted,
    remove_action,
)
from sawlog.pipeline.delta.delta_log import (
    READER_VERSION,
    TOMBSTONE_RETENTION_MS,
    WRITER_VERSION,
    Action,
    ActiveFile,
    DeltaLog,
    Snapshot,
)
from sawlog.pipeline.delta.delta_types import from_json, stored_schema, to_json
from sawlog.pipeline.delta.errors import (
    FileConflict,
    SchemaMismatch,
    TableError,
    TableExists,
    TooManyConflicts,
)
from sawlog.pipeline.delta.landed_offsets import (
    OffsetCheck,
    OffsetSpan,
    application_id,
    check_offsets,
    offsets_of,
)
from sawlog.pipeline.delta.partitioning import PartitionBy, add_partition_columns, parse
from sawlog.pipeline.delta.schema_evolution import evolved_schema
from sawlog.pipeline.delta.table_path import AnyPath, TablePath
from sawlog.pipeline.delta.table_storage import LOG, TableStorage, open_storage

WRITE = "WRITE"  # Delta's operation name for a version that adds rows
SET_PROPERTIES = "SET TBLPROPERTIES"
MERGE = "MERGE"  # and for one that replaces rows
CHECKPOINT_EVERY = 50
SMALL_FILE_BYTES = 32 * 1024 * 1024
_RECENT_VERSIONS = 200
ATTEMPTS = 1000  # every failed attempt is another writer's commit
PARTITION_BY = "sawlog.partitionBy"
EXPIRY = "delta.setTransactionRetentionDuration"
PROPERTIES = {"delta.logRetentionDuration": "interval 7 days"}

logger = EventLogger(__name__)

PlanProperties = Callable[[], tuple[Mapping[str, str], Mapping[str, int]] | None]
"""Returns properties and versions of applications to set, or None if there is nothing to do."""

PlanActions = Callable[[Snapshot], Sequence[Action] | None]
"""Returns the actions that change a snapshot, or None if there is nothing to do; may raise."""


class CommittedVersion(NamedTuple):
    version: int


class AlreadyCommitted(NamedTuple):
    """There was nothing to do; the table is at this version."""

    version: int


class ReplacedFiles(NamedTuple):
    """Files to remove in a commit that is valid on one version only: their rows were read there."""

    version: int
    files: Sequence[ActiveFile]


class TableDetail(NamedTuple):
    """The size of a table at one version, as in Delta's DESCRIBE DETAIL."""

    rows: int  # files without a row count in their statistics add none
    files: int
    size_bytes: int
    small_files: int


class Table:
    """A handle on one version; `refresh` and every transaction move it to the newest."""

    def __init__(self, storage: TableStorage, snapshot: Snapshot) -> None:
        self.storage = storage
        self.log = DeltaLog(storage)
        self._snapshot = snapshot

    @classmethod
    def open(cls, path: AnyPath, version: int | None = None) -> "Table":
        """Open the newest version, or an older one. Raises TableNotFound."""
        storage = open_storage(path)
        return cls(storage, DeltaLog(storage).snapshot(version))

    @classmethod
    def exists(cls, path: AnyPath) -> bool:
        names = open_storage(path).names(LOG)
        return any(name.endswith((".json", ".parquet")) for name in names if name[0].isdigit())

    @classmethod
    def create(
        cls,
        path: AnyPath,
        schema: pa.Schema,
        partition_by: Sequence[str | PartitionBy] = (),
        starts: Mapping[TopicPartition, int] | None = None,
        group: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> "Table":
        """Create an empty table that starts at these offsets. Raises TableExists."""
        storage = open_storage(path)
        by = [parse(entry) if isinstance(entry, str) else entry for entry in partition_by]
        configuration = {**PROPERTIES, **(properties or {})}
        _check_offsets_stay(configuration)
        if by:
            configuration[PARTITION_BY] = json.dumps([str(entry) for entry in by])
        now = _now_ms()
        metadata = {
            "id": str(uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": to_json(add_partition_columns(stored_schema(schema), by)),
            "partitionColumns": [entry.name for entry in by],
            "configuration": configuration,
            "createdTime": now,
        }
        protocol = {"minReaderVersion": READER_VERSION, "minWriterVersion": WRITER_VERSION}
        actions = [
            _commit_info("CREATE TABLE", {}, now),
            {"protocol": protocol},
            {"metaData": metadata},
            *_offset_actions(group, starts or {}, now),
        ]
        if cls.exists(path) or not DeltaLog(storage).append(0, actions):
            raise TableExists(f"{storage.root} already has a table")
        storage.sync([f"{LOG}/{0:020}.json"])  # and the directories above the log
        return cls.open(path)

    @property
    def path(self) -> TablePath:
        return self.storage.root

    @property
    def id(self) -> str:
        """The id given at creation; a table that is deleted and created again has another."""
        return str(self._snapshot.metadata["id"])

    @property
    def version(self) -> int:
        return self._snapshot.version

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot, read-only; `transact` advances it."""
        return self._snapshot

    @property
    def schema(self) -> pa.Schema:
        """All columns, partition columns included."""
        return schema_of(self._snapshot)

    @property
    def properties(self) -> Mapping[str, str]:
        return self._snapshot.metadata.get("configuration") or {}

    @property
    def txn_versions(self) -> Mapping[str, int]:
        """The versions of the table's `txn` actions, by application id."""
        return self._snapshot.transactions

    @property
    def committed_ms(self) -> int | None:
        """The time of this handle's version."""
        return self._snapshot.committed_ms

    @property
    def partition_columns(self) -> list[str]:
        return list(self._snapshot.metadata["partitionColumns"])

    @property
    def partition_by(self) -> list[PartitionBy]:
        """How rows are partitioned; tables of other writers have plain columns."""
        stored = self.properties.get(PARTITION_BY)
        entries = json.loads(stored) if stored else self.partition_columns
        return [parse(entry) if stored else PartitionBy(entry, entry, None) for entry in entries]

    def files(self) -> list[ActiveFile]:
        """The active files in the order in which they were added."""
        return sorted(self._snapshot.files.values(), key=lambda file: (file.modified_ms, file.path))

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        """The next offset of each partition, as of this handle's version."""
        return offsets_of(group, self._snapshot.transactions)

    def detail(self, *, small_bytes: int = SMALL_FILE_BYTES) -> TableDetail:
        """Count the rows, files and bytes of this handle's version."""
        files = self._snapshot.files.values()
        return TableDetail(
            rows=sum(file.rows or 0 for file in files),
            files=len(files),
            size_bytes=sum(file.size for file in files),
            small_files=sum(file.size < small_bytes for file in files),
        )

    def recent_commits(self, within_ms: int) -> list[tuple[int, int]]:
        """The time and the rows of the newest versions that added rows, newest first.

        Schema changes, compactions and rewrites do not count.
        """
        newest = self._snapshot.committed_ms
        found: list[tuple[int, int]] = []
        if newest is None:
            return found
        for version in range(self.version, max(0, self.version - _RECENT_VERSIONS), -1):
            actions = self.log.entry(version) or []
            info = next(
                (action["commitInfo"] for action in actions if "commitInfo" in action), None
            )
            if info is None or newest - info["timestamp"] > within_ms:
                break
            rows = sum(_added_rows(action) for action in actions)
            if rows and info.get("operation") == WRITE:
                found.append((info["timestamp"], rows))
        return found

    def refresh(self) -> None:
        self.log.update(self._snapshot)

    def commit(
        self,
        group: str,
        files: Sequence[DataFile],
        spans: Mapping[TopicPartition, OffsetSpan],
        *,
        schema: pa.Schema | None = None,
        info: Mapping[str, str] | None = None,
        more_txn_versions: Callable[[Mapping[str, int]], Mapping[str, int]] | None = None,
        replaced: ReplacedFiles | None = None,
    ) -> CommittedVersion | AlreadyCommitted:
        """Add the files and advance the offsets in one version, unless that was already done.

        `group` is the consumer group whose offsets these are. Columns of `schema` that the table
        lacks are added in the same version; a landing has added them before (`evolve_schema`).
        `more_txn_versions` receives the versions of the table's `txn` actions by appId and returns
        further ones to store. `replaced` files are removed in the same version. Raises
        OffsetConflict, and FileConflict if the version on which files are replaced has passed.
        """
        if files and all(span.start == span.end for span in spans.values()):
            raise ValueError("files were given but no offset moves: they could be landed twice")
        check_files_written(self.storage, files)

        def plan(snapshot: Snapshot) -> list[Action] | None:
            _check_offsets_stay(snapshot.metadata.get("configuration") or {})
            if (
                check_offsets(offsets_of(group, snapshot.transactions), spans)
                is OffsetCheck.COMMITTED
            ):
                return None
            if replaced is not None and replaced.version != snapshot.version:
                raise FileConflict(f"{self.path} moved on from version {replaced.version}")
            now = _now_ms()
            ends = {
                partition: span.end for partition, span in spans.items() if span.start != span.end
            }
            return [
                *schema_actions(snapshot, schema),
                *_offset_actions(group, ends, now),
                *(
                    transaction_action(name, version, now)
                    for name, version in (
                        more_txn_versions(snapshot.transactions) if more_txn_versions else {}
                    ).items()
                ),
                *(remove_action(file, now) for file in (replaced.files if replaced else ())),
                *add_actions(snapshot, files, schema, now),
            ]

        return self.transact(WRITE if replaced is None else MERGE, plan, info)

    def evolve_schema(self, schema: pa.Schema) -> CommittedVersion | AlreadyCommitted:
        """Add new columns. Raises SchemaMismatch."""
        return self.transact(
            "ADD COLUMN", lambda snapshot: schema_actions(snapshot, schema) or None
        )

    def set_properties(
        self,
        plan: PlanProperties,
        operation: str = SET_PROPERTIES,
        info: Mapping[str, object] | None = None,
    ) -> CommittedVersion | AlreadyCommitted:
        """Set properties and versions of `txn` actions; `plan` is called on the newest version."""

        def actions(snapshot: Snapshot) -> list[Action] | None:
            planned = plan()
            if planned is None:
                return None
            properties, versions = planned
            configuration = {**self.properties, **properties}
            now = _now_ms()
            return [
                {"metaData": {**snapshot.metadata, "configuration": configuration}},
                *(transaction_action(name, version, now) for name, version in versions.items()),
            ]

        return self.transact(operation, actions, info)

    def delete_uncommitted(self, files: Iterable[DataFile]) -> None:
        """Delete files that will not be committed."""
        delete_uncommitted(self.storage, files)

    def transact(
        self, operation: str, plan: PlanActions, info: Mapping[str, object] | None = None
    ) -> CommittedVersion | AlreadyCommitted:
        """Append what `plan` returns for the newest snapshot as the next version."""
        for _ in range(ATTEMPTS):
            self.refresh()
            actions = plan(self._snapshot)
            if actions is None:
                return AlreadyCommitted(self.version)
            version = self.version + 1
            entry = [_commit_info(operation, info or {}, _now_ms()), *actions]
            if self.log.append(version, entry):
                self._snapshot.apply(version, entry)
                if version % CHECKPOINT_EVERY == 0:
                    self._snapshot.expire_tombstones(_now_ms() - TOMBSTONE_RETENTION_MS)
                    self._try_checkpoint()
                return CommittedVersion(version)
        raise TooManyConflicts(
            f"{self.path}: {ATTEMPTS} times in a row another writer committed first; run fewer"
        )

    def checkpoint(self) -> None:
        """Write a checkpoint and delete log entries past their retention."""
        from deltalake import DeltaTable  # slow to import, and not needed in tasks

        options = self.storage.delta_options()
        table = DeltaTable(
            str(self.path), storage_options=None if options is None else dict(options)
        )
        table.create_checkpoint()
        version = table.version()
        self.storage.sync([f"{LOG}/{version:020}.checkpoint.parquet", f"{LOG}/_last_checkpoint"])
        table.cleanup_metadata()

    def _try_checkpoint(self) -> None:
        try:
            self.checkpoint()
        except Exception as error:  # the commit is valid without a checkpoint
            logger.warning(
                "could not write a checkpoint of a table", table=self.path, error=str(error)
            )


def check_files_written(storage: TableStorage, files: Iterable[DataFile]) -> None:
    """Raise TableError unless the files exist with the sizes that the tasks reported."""
    for file in files:
        found = storage.stat(decode_path(file.path))
        if found is None or found.size != file.size:
            raise TableError(
                f"{storage.full(decode_path(file.path))} should have {file.size} bytes and"
                f" {'is not there' if found is None else f'has {found.size}'}: write it again"
            )


def _check_offsets_stay(properties: Mapping[str, str]) -> None:
    if EXPIRY in properties:
        raise TableError(
            f"the table has the property {EXPIRY}, after which it would forget its offsets and"
            " land everything again: unset it"
        )


def schema_of(snapshot: Snapshot) -> pa.Schema:
    return from_json(snapshot.metadata["schemaString"])


def schema_actions(snapshot: Snapshot, schema: pa.Schema | None) -> list[Action]:
    """The `metaData` action that adds new columns; empty if there are none."""
    if schema is None:
        return []
    now = schema_of(snapshot)
    evolved = evolved_schema(now, stored_schema(schema))
    if evolved.equals(now):
        return []
    return [{"metaData": {**snapshot.metadata, "schemaString": to_json(evolved)}}]


def add_actions(
    snapshot: Snapshot,
    files: Iterable[DataFile],
    schema: pa.Schema | None,
    now_ms: int,
    *,
    data_change: bool = True,
) -> list[Action]:
    """The `add` actions of the files. Raises SchemaMismatch if the table lacks their columns."""
    evolved = schema_of(snapshot)
    if schema is not None:
        evolved = evolved_schema(evolved, stored_schema(schema))
    partitions = set(snapshot.metadata["partitionColumns"])
    fits: list[pa.Schema] = []
    for file in files:
        if not any(file.schema.equals(known) for known in fits):
            if not evolved_schema(evolved, file.schema).equals(evolved):
                missing = sorted(set(file.schema.names) - set(evolved.names))
                raise SchemaMismatch(f"{file.path} has columns that the table lacks: {missing}")
            fits.append(file.schema)
        if set(file.partition_values) != partitions:
            raise TableError(
                f"{file.path} is for partitions by {sorted(file.partition_values)}, the table has"
                f" {sorted(partitions)}"
            )
        if not partitions <= set(file.schema.names):
            missing = sorted(partitions - set(file.schema.names))
            raise TableError(
                f"{file.path} lacks the partition columns {missing}: the log and the file have them"
            )
    return [add_action(file, now_ms, data_change=data_change) for file in files]


def _offset_actions(group: str, offsets: Mapping[TopicPartition, int], now_ms: int) -> list[Action]:
    return [
        transaction_action(application_id(group, partition), offset, now_ms)
        for partition, offset in sorted(offsets.items())
    ]


def transaction_action(application: str, version: int, now_ms: int) -> Action:
    return {"txn": {"appId": application, "version": version, "lastUpdated": now_ms}}


def _commit_info(operation: str, info: Mapping[str, object], now_ms: int) -> Action:
    body: Action = {
        "timestamp": now_ms,
        "operation": operation,
        "operationParameters": {},
        "engineInfo": f"sawlog/{__version__}",
        "txnId": str(uuid4()),  # no other entry has the same bytes: see TableStorage.put_if_absent
    }
    if info:
        body["userMetadata"] = json.dumps(dict(info), sort_keys=True)
    return {"commitInfo": body}


def _added_rows(action: Action) -> int:
    body = action.get("add")
    if not isinstance(body, dict) or not body.get("dataChange"):
        return 0
    return int(json.loads(body.get("stats") or "{}").get("numRecords", 0))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
