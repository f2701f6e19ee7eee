"""`spark.readStream.format("sawlog-table")` and `spark.read`: the rows of a table, by Arrow.

The columns are those that the table has when the query starts. A stream that reaches a version with
new columns fails with SchemaChanged; restarted from the same checkpoint it continues there with all
columns. `register` makes the source known to a session. Options: `path`; for batch reads `version`;
for streams `startingVersion` (a number or `latest`), `maxFilesPerTrigger`, `maxBytesPerTrigger` and
`skipChangeCommits`. On a directory `sawlog.pipeline.delta.read` is faster.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from sawlog.pipeline.delta.configured_sources import register_source
from sawlog.pipeline.delta.dataframe import spark_schema
from sawlog.pipeline.delta.delta_types import from_json
from sawlog.pipeline.delta.delta_types import to_json as schema_to_json
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import NO_OPTIONS, StorageOptions, TablePath
from sawlog.pipeline.delta.table_storage import open_storage
from sawlog.pipeline.delta.tail import AddedFile, SourceRewritten, TableTail, TailPosition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_BYTES = 32 * 1024 * 1024
_OPTIONS = (
    "path",
    "startingVersion",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "skipChangeCommits",
    "version",
)


class TableOptions:
    """The checked options; unknown ones are rejected."""

    def __init__(
        self, options: Mapping[str, str], storage_options: StorageOptions = NO_OPTIONS
    ) -> None:
        known = {name.lower(): name for name in _OPTIONS}
        given: dict[str, str] = {}
        for name, value in options.items():
            if name.lower() not in known:
                near = difflib.get_close_matches(name.lower(), known, 1)
                meant = f"; did you mean {known[near[0]]!r}?" if near else ""
                raise ValueError(f"unknown option {name!r} of sawlog-table{meant}")
            given[known[name.lower()]] = value
        if "path" not in given:
            raise ValueError("the option 'path' is missing: the directory of the table")
        self.path = TablePath(given["path"], storage_options)
        self.max_files = _at_least(given, "maxFilesPerTrigger", 1)
        self.max_bytes = _at_least(given, "maxBytesPerTrigger", 1)
        self.version = _at_least(given, "version", 0)
        self.starts_at_latest = given.get("startingVersion") == "latest"
        self.starting_version = (
            None if self.starts_at_latest else _at_least(given, "startingVersion", 0)
        )
        self.skip_changes = _is_true(given, "skipChangeCommits")


def _at_least(given: Mapping[str, str], name: str, least: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ValueError(f"option {name!r} must be a number from {least} up, not {text!r}")
    return int(text)


def _is_true(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false").lower()
    if text not in ("true", "false"):
        raise ValueError(f"option {name!r} must be true or false, not {text!r}")
    return text == "true"


@dataclass
class Files(InputPartition):
    """The files that one task reads."""

    root: TablePath
    files: Sequence[AddedFile]
    schema: str


def _read(partition: Files) -> Iterator[pa.RecordBatch]:
    storage, schema = open_storage(partition.root), from_json(partition.schema)
    for file in partition.files:
        try:
            yield from scan_file(storage, file.path, schema, file.partition_values)
        except FileNotFoundError as error:
            raise SourceRewritten(
                f"{error.filename or file.path} is gone: it was replaced, and vacuumed before it"
                " was read here. Start again, and vacuum later"
            ) from error


def _tasks(root: TablePath, files: Sequence[AddedFile], schema: pa.Schema) -> list[Files]:
    """Group small files so that each task has enough to read."""
    groups: list[list[AddedFile]] = []
    size = TASK_BYTES
    for file in files:
        if size + file.size > TASK_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    text = schema_to_json(schema)
    return [Files(root, group, text) for group in groups]


class TableSource(DataSource):
    storage_options: ClassVar[StorageOptions] = NO_OPTIONS  # `register_source` sets others

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._checked = TableOptions(options, self.storage_options)

    @classmethod
    def name(cls) -> str:
        return "sawlog-table"

    def schema(self) -> StructType:
        return spark_schema(Table.open(self._checked.path, self._checked.version).schema)

    def reader(self, schema: StructType) -> "TableReader":
        return TableReader(self._checked, _arrow(schema))

    def streamReader(self, schema: StructType) -> "TableStreamReader":  # noqa: N802
        return TableStreamReader(self._checked, _arrow(schema))


def register(spark: "SparkSession", options: Mapping[str, str] | None = None) -> str:
    """Make the source known to a session; returns its format name.

    `options` are those of an object store, such as `endpoint` and credentials. They are not options
    of the reader, which Spark would show; the format name stands for them.
    """
    return register_source(spark, TableSource, StorageOptions(options))


def _arrow(schema: StructType) -> pa.Schema:
    return from_json(schema.json())


class TableReader(DataSourceReader):
    def __init__(self, options: TableOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        table = Table.open(self._options.path, self._options.version)
        files = [AddedFile(file.path, file.size, file.partition_values) for file in table.files()]
        return _tasks(table.path, files, self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Files)
        return _read(partition)


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's checkpoint has the end offset of a batch but not the start of the first batch, and
    Spark asks for the start again after a crash. So the end offset of the first batch includes its
    start.
    """

    def __init__(self, options: TableOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._tail = TableTail(options.path, columns=schema, skip_changes=options.skip_changes)
        self._initial: TailPosition | None = None
        self._target: TailPosition | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The start of the stream; the same at every call."""
        if self._initial is None:
            if self._options.starts_at_latest:
                self._initial = self._tail.end_position()
            elif self._options.starting_version is not None:
                self._initial = TailPosition(self._options.starting_version, 0)
            else:
                self._initial = self._tail.snapshot_start()
        return {**self._written(self._initial), "initial": True}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._tail.end_position()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        start_position = self._read_position(start)
        end = self._tail.advance(
            start_position,
            max_files=self._options.max_files,
            max_bytes=self._options.max_bytes,
            target=self._target,
        )
        if end == start_position:
            return start
        began = {"began": start_position.to_json()} if start.get("initial") else {}
        return {**self._written(end), **began}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        last = self._read_position(end)
        files = self._tail.between(TailPosition.from_json(end.get("began", start)), last)
        return _tasks(open_storage(self._options.path).root, files, self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Files)
        return _read(partition)

    def _written(self, position: TailPosition) -> dict[str, Any]:
        return {**position.to_json(), "table": self._tail.table_id}

    def _read_position(self, written: Mapping[str, Any]) -> TailPosition:
        """Decode an offset. Raises SourceRewritten for an offset of another table."""
        position = TailPosition.from_json(written)
        if written.get("table") != self._tail.table_id:
            raise SourceRewritten(
                f"the stream is at version {position.version} of another table, which"
                f" {self._options.path} has replaced; start again with a new"
                " checkpoint"
            )
        return position
