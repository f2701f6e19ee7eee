"""One Iceberg table in a catalog: its content, and transactions that land batches in it.

The offsets are table properties, set in the transaction that adds the files. Each one adds a
snapshot, also without files, and requires that `main` is at the snapshot on which it was planned.
After a conflict the table is loaded again and its offsets decide. So they do after a commit of
unknown outcome: it has succeeded if the table has its snapshot, and if its request arrives later,
either it or the next commit fails by that requirement.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table as CatalogTable
from pyiceberg.table import TableProperties, Transaction
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.table.update import AssertCurrentSchemaId, AssertTableUUID, SetPropertiesUpdate

from sawlog import __version__
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.data_files import DataFile, decode_path
from sawlog.pipeline.delta.delta_types import stored_schema
from sawlog.pipeline.delta.errors import (
    SchemaMismatch,
    TableError,
    TableExists,
    TableNotFound,
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
from sawlog.pipeline.delta.table import (
    SET_PROPERTIES,
    SMALL_FILE_BYTES,
    AlreadyCommitted,
    CommittedVersion,
    PlanProperties,
    ReplacedFiles,
    TableDetail,
    check_files_written,
)
from sawlog.pipeline.delta.table_path import TablePath, is_object_store
from sawlog.pipeline.delta.table_storage import TableStorage, open_storage
from sawlog.pipeline.iceberg.catalogs import (
    CatalogConfig,
    catalog_error,
    create_namespace,
    is_created,
    open_catalog,
)
from sawlog.pipeline.iceberg.iceberg_types import from_iceberg, partition_spec, to_iceberg
from sawlog.pipeline.iceberg.registered_files import registered_file

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

TXN = "sawlog.txn."  # prefix of the properties with offsets and other versions of applications
PARTITION_BY = "sawlog.partitionBy"
LAST_SNAPSHOT = "sawlog.lastSnapshot"
ATTEMPTS = 1000  # every failed attempt is another writer's commit
UNKNOWN_OUTCOMES = 5  # in a row, before the catalog counts as unavailable
_RETRIES = TableProperties.COMMIT_NUM_RETRIES
_PROPERTIES = {
    _RETRIES: "0",  # pyiceberg's retries would commit a stale batch on top of another writer's
    TableProperties.FORMAT_VERSION: "2",
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    "write.metadata.delete-after-commit.enabled": "true",
}

logger = EventLogger(__name__)


class TableRef(NamedTuple):
    """Where an Iceberg table is: its name in a catalog, and the directory of its files."""

    catalog: CatalogConfig
    name: str
    path: TablePath

    @property
    def identifier(self) -> tuple[str, ...]:
        return *self.catalog.namespace.split("."), self.name

    @property
    def location(self) -> str:
        return str(self.path) if is_object_store(self.path) else f"file://{self.path}"

    def open_catalog(self) -> "Catalog":
        return open_catalog(self.catalog, self.path)


class Staged(NamedTuple):
    """Changes of a transaction; the snapshot id tells later whether they were committed."""

    snapshot_id: int | None


_Stage = Callable[[Transaction], Staged | None]
"""Adds changes to a transaction; None if there is nothing to do. May raise."""


class IcebergTable:
    """A handle on one state of a table; `refresh` and every transaction move it to the newest."""

    def __init__(self, ref: TableRef, table: CatalogTable) -> None:
        self.ref = ref
        self.storage: TableStorage = open_storage(ref.path)
        self._table = table

    @classmethod
    def open(cls, ref: TableRef) -> "IcebergTable":
        """Load the table. Raises TableNotFound, UnsupportedStorage or StoreUnavailable."""
        return cls(ref, _load(ref))

    @classmethod
    def exists(cls, ref: TableRef) -> bool:
        try:
            _load(ref)
        except TableNotFound:
            return False
        return True

    @classmethod
    def create(
        cls,
        ref: TableRef,
        schema: pa.Schema,
        partition_by: Sequence[str | PartitionBy] = (),
        starts: Mapping[TopicPartition, int] | None = None,
        group: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> "IcebergTable":
        """Create an empty table that starts at these offsets. Raises TableExists."""
        by = [parse(entry) if isinstance(entry, str) else entry for entry in partition_by]
        columns = to_iceberg(add_partition_columns(stored_schema(schema), by))
        settings = {**_PROPERTIES, **(properties or {}), **_offset_properties(group, starts or {})}
        if by:
            settings[PARTITION_BY] = json.dumps([str(entry) for entry in by])
        catalog = ref.open_catalog()
        try:
            create_namespace(ref.catalog, catalog)
            made = catalog.create_table(
                ref.identifier, columns, ref.location, partition_spec(columns, by),
                properties=settings,
            )  # fmt: skip
        except TableAlreadyExistsError as error:
            raise TableExists(f"{ref.catalog} already has {ref.name!r}") from error
        except Exception as error:
            if cls.exists(ref):  # created by a request whose response was lost, or by another
                raise TableExists(f"{ref.catalog} already has {ref.name!r}") from error
            raise catalog_error(ref.catalog, error) from error
        return cls(ref, made)

    @property
    def path(self) -> TablePath:
        return self.ref.path

    @property
    def id(self) -> str:
        """The id given at creation; a table that is dropped and created again has another."""
        return str(self._table.metadata.table_uuid)

    @property
    def version(self) -> int:
        """The sequence number, which every batch advances; changes of the schema do not."""
        snapshot = self._table.current_snapshot()
        return 0 if snapshot is None else snapshot.sequence_number or 0

    @property
    def schema(self) -> pa.Schema:
        """All columns, partition columns included."""
        return from_iceberg(self._table.schema())

    @property
    def properties(self) -> Mapping[str, str]:
        return self._table.metadata.properties

    @property
    def txn_versions(self) -> dict[str, int]:
        """The offsets and other numbers of applications, by application id."""
        return {
            name.removeprefix(TXN): int(value)
            for name, value in self.properties.items()
            if name.startswith(TXN)
        }

    @property
    def partition_by(self) -> list[PartitionBy]:
        """How rows are partitioned; tables of other writers have plain columns."""
        stored = self.properties.get(PARTITION_BY)
        if stored is not None:
            return [parse(entry) for entry in json.loads(stored)]
        return [PartitionBy(field.name, field.name, None) for field in self._table.spec().fields]

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        """The next offset of each partition, as of this handle's state."""
        return offsets_of(group, self.txn_versions)

    @property
    def committed_ms(self) -> int | None:
        """The time of the newest snapshot."""
        snapshot = self._table.current_snapshot()
        return None if snapshot is None else snapshot.timestamp_ms

    def recent_commits(self, within_ms: int) -> list[tuple[int, int]]:
        """The time and the rows of the newest snapshots that added rows, newest first."""
        newest = self._table.current_snapshot()
        if newest is None:
            return []
        found = [
            (snapshot.timestamp_ms, _total(snapshot, "added-records"))
            for snapshot in ancestors_of(newest, self._table.metadata)
            if newest.timestamp_ms - snapshot.timestamp_ms <= within_ms
        ]
        return [(time_ms, rows) for time_ms, rows in found if rows]

    def detail(self, *, small_bytes: int = SMALL_FILE_BYTES) -> TableDetail:
        """Count the rows, files and bytes of this handle's state."""
        sizes = self._file_sizes()
        return TableDetail(
            rows=_total(self._table.current_snapshot(), "total-records"),
            files=len(sizes),
            size_bytes=sum(sizes.values()),
            small_files=sum(size < small_bytes for size in sizes.values()),
        )

    def refresh(self) -> None:
        """Load the newest state. Raises TableNotFound or StoreUnavailable."""
        found = _load(self.ref)
        if found.metadata.table_uuid != self._table.metadata.table_uuid:
            raise TableNotFound(f"{self.ref.name!r} was dropped and created again")
        self._table = found

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
        """Add the files and advance the offsets in one transaction, unless that was already done.

        The parameters are those of a Delta table. Columns of `schema` that the table lacks are
        added before. Raises OffsetConflict.
        """
        assert replaced is None, "keyed tables are Delta tables"
        if files and all(span.start == span.end for span in spans.values()):
            raise ValueError("files were given but no offset moves: they could be landed twice")
        check_files_written(self.storage, files)
        if schema is not None:
            self.evolve_schema(schema)

        def stage(transaction: Transaction) -> Staged | None:
            versions = self.txn_versions
            if check_offsets(offsets_of(group, versions), spans) is OffsetCheck.COMMITTED:
                return None
            ends = {tp: span.end for tp, span in spans.items() if span.start != span.end}
            more = more_txn_versions(versions) if more_txn_versions else {}
            changed = {**_offset_properties(group, ends), **_txn_properties(more)}
            return self._append(transaction, files, changed, info or {})

        return self._transact(stage)

    def set_properties(
        self,
        plan: PlanProperties,
        operation: str = SET_PROPERTIES,
        info: Mapping[str, object] | None = None,
    ) -> CommittedVersion | AlreadyCommitted:
        """Set properties and versions of applications; `plan` is called on the newest state.

        None means that there is nothing to do. The commit has a snapshot, like one of a batch, so
        that it excludes a batch at the same time.
        """

        def stage(transaction: Transaction) -> Staged | None:
            planned = plan()
            if planned is None:
                return None
            properties, versions = planned
            changed = {**properties, **_txn_properties(versions)}
            return self._append(transaction, [], changed, {"operation": operation, **(info or {})})

        return self._transact(stage)

    def evolve_schema(self, schema: pa.Schema) -> CommittedVersion | AlreadyCommitted:
        """Add new columns. Raises SchemaMismatch or InvalidColumn."""

        def stage(transaction: Transaction) -> Staged | None:
            now = self.schema
            evolved = evolved_schema(now, stored_schema(schema))
            if evolved.equals(now):
                return None
            columns = to_iceberg(evolved)
            with transaction.update_schema() as update:
                update.union_by_name(columns)
            return Staged(None)

        return self._transact(stage)

    def delete_uncommitted(self, files: Iterable[DataFile]) -> None:
        """Delete files that will not be committed; files of the newest snapshot stay."""
        unwanted = list(files)
        if not unwanted:
            return
        self.refresh()
        known = self._file_sizes()
        for file in unwanted:
            path = decode_path(file.path)
            if self._location(path) not in known:
                self.storage.delete(path)

    def _append(
        self,
        transaction: Transaction,
        files: Sequence[DataFile],
        properties: Mapping[str, str],
        info: Mapping[str, object],
    ) -> Staged:
        """Stage a snapshot with these files, and the properties."""
        self._check_properties()
        self._check_columns(files)
        summary = {"sawlog.version": __version__}
        for name, value in info.items():
            summary[f"sawlog.{name}"] = value if isinstance(value, str) else json.dumps(value)
        schema = self.schema
        registered = [
            registered_file(
                self._table.metadata, schema, self.storage, file,
                self._location(decode_path(file.path)),
            )
            for file in files
        ]  # fmt: skip
        with transaction.update_snapshot(snapshot_properties=summary).merge_append() as append:
            for file in registered:
                append.append_data_file(file)
        snapshot_id = append.snapshot_id
        transaction.set_properties({**properties, LAST_SNAPSHOT: str(snapshot_id)})
        return Staged(snapshot_id)

    def _transact(self, stage: _Stage) -> CommittedVersion | AlreadyCommitted:
        """Commit what `stage` adds to a transaction on the newest state."""
        tried: set[int] = set()
        unknown_outcomes = 0
        for _ in range(ATTEMPTS):
            self.refresh()
            if (landed := self._sequence_number(tried)) is not None:
                return CommittedVersion(landed)
            has_mapping = self._table.metadata.name_mapping() is not None
            transaction = self._table.transaction()
            staged = stage(transaction) if has_mapping else None
            if has_mapping and staged is None:
                return AlreadyCommitted(self.version)
            if staged is not None and staged.snapshot_id is not None:
                tried.add(staged.snapshot_id)
            try:
                if has_mapping:
                    transaction.commit_transaction()
                    return CommittedVersion(self.version)
                self._set_name_mapping()
            except CommitFailedException:
                unknown_outcomes = 0
            except Exception as error:  # of any library below the catalog
                unknown_outcomes += 1
                logger.warning(
                    "the outcome of a commit is unknown: loading the table again",
                    table=self.ref.name, error=type(error).__name__,
                )  # fmt: skip
                if unknown_outcomes == UNKNOWN_OUTCOMES:
                    raise catalog_error(self.ref.catalog, error) from error
        raise TooManyConflicts(
            f"{self.path}: {ATTEMPTS} times in a row another writer committed first; run fewer"
        )

    def _sequence_number(self, snapshot_ids: set[int]) -> int | None:
        """The sequence number of the one of these snapshots that the table has, if any."""
        for snapshot_id in snapshot_ids:
            snapshot = self._table.metadata.snapshot_by_id(snapshot_id)
            if snapshot is not None:
                return snapshot.sequence_number or 0
        return None

    def _set_name_mapping(self) -> None:
        """Map the names of columns in files, which have no field ids, to those of the schema.

        A later change of the schema changes the mapping in the same commit.
        """
        metadata = self._table.metadata
        text = metadata.schema().name_mapping.model_dump_json()
        self._table.catalog.commit_table(
            self._table,
            (
                AssertTableUUID(uuid=metadata.table_uuid),
                AssertCurrentSchemaId.model_validate(
                    {"current-schema-id": metadata.current_schema_id}
                ),
            ),
            (SetPropertiesUpdate(updates={TableProperties.DEFAULT_NAME_MAPPING: text}),),
        )

    def _check_properties(self) -> None:
        """Raise TableError if batches could land twice, or the table has lost some."""
        if self.properties.get(_RETRIES) != "0":
            raise TableError(
                f"the property {_RETRIES} of {self.ref.name!r} is not 0: with retries a batch could"
                " land twice; set it to 0"
            )
        last = self._table.metadata.snapshot_by_id(int(self.properties.get(LAST_SNAPSHOT, -1)))
        newest = self._table.current_snapshot()
        if last is None or last == newest:
            return
        if last not in ancestors_of(newest, self._table.metadata):
            raise TableError(
                f"{self.ref.name!r} was rolled back behind the last batch, but its offsets were"
                f" not: set its current snapshot to {last.snapshot_id}, or land it in a table of"
                " another name"
            )

    def _check_columns(self, files: Sequence[DataFile]) -> None:
        """Raise SchemaMismatch or TableError if the table lacks columns of the files."""
        schema = self.schema
        partitions = {field.name for field in self._table.spec().fields}
        for file in files:
            if not evolved_schema(schema, file.schema).equals(schema):
                missing = sorted(set(file.schema.names) - set(schema.names))
                raise SchemaMismatch(f"{file.path} has columns that the table lacks: {missing}")
            if set(file.partition_values) != partitions:
                raise TableError(
                    f"{file.path} is for partitions by {sorted(file.partition_values)}, the table"
                    f" has {sorted(partitions)}"
                )

    def _location(self, path: str) -> str:
        return f"{self.ref.location}/{path}"

    def _file_sizes(self) -> dict[str, int]:
        """The sizes of the files of the newest snapshot, by location."""
        snapshot = self._table.current_snapshot()
        if snapshot is None:
            return {}
        io = self._table.io
        return {
            entry.data_file.file_path: entry.data_file.file_size_in_bytes
            for manifest in snapshot.manifests(io)
            for entry in manifest.fetch_manifest_entry(io)
            if entry.data_file.content is DataFileContent.DATA
        }


def _load(ref: TableRef) -> CatalogTable:
    if not is_created(ref.catalog):
        raise TableNotFound(f"{ref.catalog} has no table {ref.name!r}")
    catalog = ref.open_catalog()
    try:
        return catalog.load_table(ref.identifier)
    except NoSuchTableError as error:
        raise TableNotFound(f"{ref.catalog} has no table {ref.name!r}") from error
    except Exception as error:
        raise catalog_error(ref.catalog, error) from error


def _txn_properties(versions: Mapping[str, int]) -> dict[str, str]:
    return {TXN + application: str(version) for application, version in sorted(versions.items())}


def _offset_properties(group: str, offsets: Mapping[TopicPartition, int]) -> dict[str, str]:
    return _txn_properties({application_id(group, tp): offset for tp, offset in offsets.items()})


def _total(snapshot: Snapshot | None, name: str) -> int:
    """A number of a snapshot's summary; 0 if it has none."""
    summary = None if snapshot is None else snapshot.summary
    return int((summary and summary.additional_properties.get(name)) or 0)
