"""The pipeline file as frozen data with defaults.

`pipeline_file.py` reads it from YAML and reports errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sawlog.client.consumer.consumer import AT_EARLIEST, Start
from sawlog.pipeline.delta.table_path import TablePath
from sawlog.pipeline.formats.landed_rows import USUAL, RecordColumns
from sawlog.pipeline.iceberg.catalogs import CatalogConfig
from sawlog.pipeline.landing.configuration.topic_selection import TopicSelection
from sawlog.pipeline.registry.registry_url import RegistryUrl

INFER = "infer"
REGISTRY = "registry"
DEAD_SUFFIX = "__dead"
FORMATS = ("raw", "json", "avro", "protobuf", "csv")
DELTA = "delta"
ICEBERG = "iceberg"
TABLE_FORMATS = (DELTA, ICEBERG)
CHECKPOINTS = "_checkpoints"
RECORD_KEY = "key"  # the column with the key of the record
RECORDS = "_sawlog"  # what drivers record in the lake


@dataclass(frozen=True, slots=True)
class CommitBounds:
    """The size of batches, each of which is one commit, and the time between them.

    `rows` and `fetched_bytes` (as on the wire) limit the size of a batch. A batch starts when as
    much is waiting in the topic, else `every_s` after the start of the last one.
    """

    every_s: float = 10.0
    rows: int = 1_000_000
    fetched_bytes: int = 256_000_000


@dataclass(frozen=True, slots=True)
class Upsert:
    """How records change the rows of a keyed table: the last record of a key is its row.

    `delete_when` is a condition; records for which it holds delete the row. `envelope` is
    `debezium`, or empty if a value is a row.
    """

    key: tuple[str, ...]
    delete_when: str = ""
    envelope: str = ""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The upkeep of tables beside the landing: vacuum, and compaction.

    Every `every_s`, files of similar size are merged where a partition has more than `small_files`.
    """

    every_s: float = 60.0
    small_files: int = 20
    target_bytes: int = 128_000_000


@dataclass(frozen=True, slots=True)
class LandedTable:
    """A table in which a topic lands, or several: `topic` is empty then."""

    name: str
    path: TablePath
    topic: str
    group: str
    format: str = "raw"
    schema: str = INFER  # `infer`, `registry`, DDL, or the path of an Avro or Protobuf schema
    options: Mapping[str, str] = field(default_factory=dict)
    registry: RegistryUrl | None = None
    partition_by: tuple[str, ...] = ()
    commit: CommitBounds = CommitBounds()
    start: Start = AT_EARLIEST
    read_committed: bool = True
    columns: RecordColumns = USUAL
    hints: str = ""  # DDL of fields whose types are not inferred
    topics: tuple[str, ...] = ()
    topic_pattern: str = ""
    upsert: Upsert | None = None  # None: rows are appended
    catalog: CatalogConfig | None = None  # of an Iceberg table; None: a Delta table

    @property
    def table_format(self) -> str:
        return DELTA if self.catalog is None else ICEBERG

    @property
    def selection(self) -> TopicSelection:
        return TopicSelection((self.topic,) if self.topic else self.topics, self.topic_pattern)

    @property
    def dead_path(self) -> TablePath:
        return self.path + DEAD_SUFFIX


@dataclass(frozen=True, slots=True)
class QueryTable:
    """A table that a query over other tables or topics fills.

    `key` names the columns by which rows are upserted, for aggregates. Without it rows are
    appended.
    """

    name: str
    path: TablePath
    sql: str
    checkpoint: str  # a directory
    key: tuple[str, ...] = ()
    watermark: Mapping[str, float] = field(default_factory=dict)  # column to seconds
    topics: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()  # tables of the file that the query reads
    partition_by: tuple[str, ...] = ()
    every_s: float = 10.0


Table = LandedTable | QueryTable


def appends_rows(table: Table) -> bool:
    """Whether rows are only added; otherwise they replace those with the same key."""
    return table.upsert is None if isinstance(table, LandedTable) else not table.key


def delta_paths(table: Table) -> list[TablePath]:
    """The Delta tables of a table: itself, unless it is of Iceberg, and its dead letters."""
    if isinstance(table, QueryTable):
        return [table.path]
    return [table.dead_path] if table.catalog is not None else [table.path, table.dead_path]


def dependency_order(queries: Sequence[QueryTable]) -> list[QueryTable]:
    """Order queries so that each comes after those that it reads; there are no cycles."""
    by_name = {query.name: query for query in queries}
    ordered: dict[str, QueryTable] = {}

    def add(query: QueryTable) -> None:
        for name in query.tables:
            if name in by_name and name not in ordered:
                add(by_name[name])
        ordered[query.name] = query

    for query in queries:
        if query.name not in ordered:
            add(query)
    return list(ordered.values())


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """The content of a pipeline file."""

    file: str
    brokers: str
    lake: TablePath
    tables: tuple[Table, ...]
    spark: Mapping[str, str] = field(default_factory=dict)
    maintain: Maintenance | None = Maintenance()  # None: off

    @property
    def landed(self) -> list[LandedTable]:
        return [table for table in self.tables if isinstance(table, LandedTable)]

    @property
    def queries(self) -> list[QueryTable]:
        return [table for table in self.tables if isinstance(table, QueryTable)]

    def table(self, name: str) -> Table | None:
        return next((table for table in self.tables if table.name == name), None)
