"""The tables in which topics land, of either format: what a landing needs of them, and opening.

A landed table is a Delta table in its directory, or an Iceberg table in a catalog. Its dead letters
are a Delta table for both: their files are replaced together with their offsets, and the order of
the two commits, dead letters first, does not depend on the format of the second.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta import widening
from sawlog.pipeline.delta.data_files import DataFile
from sawlog.pipeline.delta.delta_types import stored_schema
from sawlog.pipeline.delta.errors import TableError
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.partitioning import PartitionBy
from sawlog.pipeline.delta.schema_evolution import evolved_schema
from sawlog.pipeline.delta.table import (
    SET_PROPERTIES,
    AlreadyCommitted,
    CommittedVersion,
    PlanProperties,
    ReplacedFiles,
    Table,
    TableDetail,
)
from sawlog.pipeline.delta.table_path import TablePath
from sawlog.pipeline.delta.table_storage import TableStorage, open_storage
from sawlog.pipeline.iceberg.catalogs import CatalogConfig, check_installed
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, QueryTable
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure

if TYPE_CHECKING:
    from sawlog.pipeline.iceberg.iceberg_table import IcebergTable, TableRef

_ICEBERG_METADATA = "metadata"  # the directory of an Iceberg table's manifests


class LandingTable(Protocol):
    """A handle on one state of a table; `refresh` and every commit move it to the newest."""

    @property
    def path(self) -> TablePath: ...

    @property
    def storage(self) -> TableStorage: ...

    @property
    def id(self) -> str:
        """The id given at creation; a table that is deleted and created again has another."""

    @property
    def version(self) -> int: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def partition_by(self) -> list[PartitionBy]: ...

    @property
    def properties(self) -> Mapping[str, str]: ...

    @property
    def txn_versions(self) -> Mapping[str, int]:
        """Offsets and other numbers, by application id."""

    @property
    def committed_ms(self) -> int | None: ...

    def offsets(self, group: str) -> dict[TopicPartition, int]: ...

    def detail(self) -> TableDetail: ...

    def recent_commits(self, within_ms: int) -> list[tuple[int, int]]:
        """The time and the rows of the newest commits that added rows, newest first."""

    def refresh(self) -> None: ...

    def evolve_schema(self, schema: pa.Schema) -> CommittedVersion | AlreadyCommitted: ...

    def set_properties(
        self,
        plan: PlanProperties,
        operation: str = SET_PROPERTIES,
        info: Mapping[str, object] | None = None,
    ) -> CommittedVersion | AlreadyCommitted:
        """Set properties and versions of applications; `plan` is called on the newest state."""

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
        """Add the files and advance the offsets, unless that was already done.

        `replaced` files are those of keyed tables, which are always Delta tables.
        """

    def delete_uncommitted(self, files: Iterable[DataFile]) -> None: ...


def table_exists(config: LandedTable | QueryTable) -> bool:
    """Whether the table was created. Raises TableError or OSError."""
    if isinstance(config, QueryTable) or config.catalog is None:
        return Table.exists(config.path)
    iceberg, ref = _iceberg(config, config.catalog)
    return iceberg.exists(ref)


def may_exist(config: LandedTable) -> bool:
    """Whether the table exists, or its store or catalog cannot tell."""
    try:
        return table_exists(config)
    except (TableError, OSError):
        return True


def open_table(config: LandedTable | QueryTable) -> LandingTable:
    """Open the newest state of a table. Raises TableError or OSError."""
    if isinstance(config, QueryTable) or config.catalog is None:
        return Table.open(config.path)
    iceberg, ref = _iceberg(config, config.catalog)
    return iceberg.open(ref)


def create(
    config: LandedTable,
    schema: pa.Schema,
    starts: Mapping[TopicPartition, int],
    properties: Mapping[str, str],
) -> None:
    """Create an empty table that starts at these offsets. Raises TableExists."""
    arguments = schema, config.partition_by, starts, config.group, properties
    if config.catalog is None:
        Table.create(config.path, *arguments)
        return
    iceberg, ref = _iceberg(config, config.catalog)
    iceberg.create(ref, *arguments)


def check_columns(table: LandingTable, schema: pa.Schema) -> None:
    """Raise SchemaMismatch if the table cannot have these columns."""
    if isinstance(table, Table):  # whose bigint columns may become double
        widening.check_columns(table.schema, schema)
    else:
        evolved_schema(table.schema, stored_schema(schema))


def add_columns(table: LandingTable, schema: pa.Schema) -> None:
    """Add new columns. Raises SchemaMismatch."""
    if isinstance(table, Table):
        widening.evolve_columns(table, schema)
    else:
        table.evolve_schema(schema)


def widen_columns(table: LandingTable, paths: Collection[str], run: widening.RunTasks) -> bool:
    """Make bigint columns double; False if that cannot be done.

    Iceberg has no such promotion: fractions in a bigint column stay dead letters.
    """
    return isinstance(table, Table) and widening.widen_columns(table, paths, run)


def check_other_format(config: LandedTable) -> None:
    """Raise LandingFailure if the directory of a table to create has one of the other format.

    A vacuum of a Delta table deletes files that are not in its log, those of Iceberg among them.
    """
    if config.catalog is None:
        other, has_other = "an Iceberg", bool(open_storage(config.path).names(_ICEBERG_METADATA))
    else:
        other, has_other = "a Delta", Table.exists(config.path)
    if has_other:
        raise LandingFailure(
            FailureKind.INVALID,
            f"{config.path} has {other} table, the file says table_format: {config.table_format};"
            " the format of a table cannot be changed: land it in a table of another name",
        )


def require_delta(config: LandedTable, what: str, instead: str) -> None:
    """Raise LandingFailure for an Iceberg table, which does not offer `what`, with a way out."""
    if config.catalog is not None:
        raise LandingFailure(
            FailureKind.INVALID,
            f"{config.name!r} is an Iceberg table, and {what} is for Delta tables only: {instead}",
        )


def _iceberg(config: LandedTable, catalog: CatalogConfig) -> "tuple[type[IcebergTable], TableRef]":
    """The class of Iceberg tables, which imports pyiceberg, and the table. Raises TableError."""
    check_installed()
    from sawlog.pipeline.iceberg.iceberg_table import IcebergTable, TableRef

    return IcebergTable, TableRef(catalog, config.name, config.path)
