"""Writes the data files of a table in a task: Arrow batches in, Parquet files out.

Files are not part of the table until a commit adds them. The buffered bytes over all partitions and
the number of open files are bounded. When `close` returns, the files are durable. A writer that is
left without `close` deletes its files, unless the process is killed.
"""

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from sawlog.pipeline.delta.data_files import PREFIX, DataFile, decode_path, encode_path
from sawlog.pipeline.delta.delta_types import stored_schema
from sawlog.pipeline.delta.errors import SchemaMismatch
from sawlog.pipeline.delta.partitioning import (
    PartitionBy,
    Values,
    partition_directory,
    split_by_partition,
)
from sawlog.pipeline.delta.schema_evolution import conform, evolved_schema
from sawlog.pipeline.delta.statistics import bounded_columns, to_delta
from sawlog.pipeline.delta.table_storage import TableStorage

TARGET_BYTES = 128 * 1024 * 1024
BUFFER_BYTES = 64 * 1024 * 1024
ROW_GROUP_BYTES = 32 * 1024 * 1024  # of Arrow data, before encoding and compression
COMPRESSION = "zstd"
COMPRESSION_LEVEL = 1
_RISING = ("offset", "timestamp")  # ascending columns


class _OpenFile:
    """A file being written, and the rows buffered for its next row group."""

    def __init__(
        self,
        storage: TableStorage,
        path: str,
        schema: pa.Schema,
        partition_columns: Sequence[str],
    ) -> None:
        self.path = path
        self.schema = schema
        self.waiting: list[pa.RecordBatch] = []
        self.waiting_bytes = 0
        self._found: list[pq.FileMetaData] = []
        self._partition_columns = partition_columns
        self._output = storage.open_output(path)
        try:
            self._writer = pq.ParquetWriter(
                self._output.sink,
                schema,
                metadata_collector=self._found,
                **_settings(schema, partition_columns),
            )
        except BaseException:
            self._output.abort()
            raise

    @property
    def written_bytes(self) -> int:
        return self._output.tell()

    def add(self, batch: pa.RecordBatch) -> int:
        """Buffer a batch; returns its bytes."""
        self.waiting.append(batch)
        self.waiting_bytes += batch.nbytes
        return int(batch.nbytes)

    def flush(self) -> int:
        """Write the buffered rows as a row group; returns the bytes freed."""
        freed, self.waiting_bytes = self.waiting_bytes, 0
        if self.waiting:
            table = pa.Table.from_batches(self.waiting, self.schema)
            self.waiting = []
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        return freed

    def finish(self, partition_values: dict[str, str | None]) -> DataFile:
        try:
            self.flush()
            self._writer.close()
            size = self.written_bytes
            self._output.close()
        except BaseException:
            self.abandon()
            raise
        metadata = self._found[0]
        stats = to_delta(metadata, self.schema, self._partition_columns)
        path = encode_path(self.path)
        return DataFile(path, size, metadata.num_rows, partition_values, stats, self.schema)

    def abandon(self) -> None:
        """Drop the file without a footer, since the disk may be full."""
        self.waiting = []
        self._writer.is_open = False  # else garbage collection would write a footer
        self._output.abort()


class FileWriter:
    """The files of one task. Rows of a partition keep their order and may fill several files."""

    def __init__(
        self,
        storage: TableStorage,
        partition_by: Sequence[PartitionBy] = (),
        *,
        target_bytes: int = TARGET_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
        row_group_bytes: int = ROW_GROUP_BYTES,
        max_open_files: int | None = None,
    ) -> None:
        self._storage = storage
        self._partition_by = list(partition_by)
        self._names = [entry.name for entry in partition_by]
        self._target_bytes = target_bytes
        self._buffer_bytes = buffer_bytes
        self._row_group_bytes = min(row_group_bytes, buffer_bytes)
        self._max_open_files = max_open_files or storage.max_open_files
        self._schema = pa.schema([])  # all columns seen so far
        self._open: dict[Values, _OpenFile] = {}  # least recently used first
        self._waiting_bytes = 0
        self._finished: list[DataFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows to their partitions.

        Columns that earlier batches had are null if this batch lacks them; new columns start new
        files.
        """
        if not batch.num_rows:
            return
        batch = conform(batch, stored_schema(batch.schema))
        for values, rows in split_by_partition(batch, self._partition_by):
            self.write_into(values, rows)

    def write_into(self, values: Values, batch: pa.RecordBatch) -> None:
        """Write rows, which have the partition columns, to the partition with these values."""
        schema = self._seen(batch.schema)
        file = self._open.pop(values, None)
        if file is not None and not file.schema.equals(schema):
            self._finish(values, file)
            file = None
        if file is None:
            self._make_room()
            file = self._new_file(values, schema)
        self._open[values] = file
        self._waiting_bytes += file.add(conform(batch, schema))
        if file.waiting_bytes >= self._row_group_bytes:
            self._waiting_bytes -= file.flush()
            if file.written_bytes >= self._target_bytes:
                self._finish(values, self._open.pop(values))
        while self._waiting_bytes > self._buffer_bytes:
            largest = max(self._open.values(), key=lambda candidate: candidate.waiting_bytes)
            self._waiting_bytes -= largest.flush()

    def close(self) -> list[DataFile]:
        """Finish all files and make them durable."""
        for values in list(self._open):
            self._finish(values, self._open.pop(values))
        self._storage.sync(decode_path(file.path) for file in self._finished)
        files, self._finished = self._finished, []
        return files

    def abort(self) -> None:
        """Delete all files that `close` has not returned."""
        for file in self._open.values():
            file.abandon()
        self._open.clear()
        for finished in self._finished:
            self._storage.delete(decode_path(finished.path))
        self._finished = []
        self._waiting_bytes = 0

    def _seen(self, schema: pa.Schema) -> pa.Schema:
        """Add the batch's columns to those seen so far.

        A column whose type changed has the newer type from here on; the committer resolves the
        conflict.
        """
        if schema.equals(self._schema):
            return self._schema
        try:
            self._schema = evolved_schema(self._schema, schema)
        except SchemaMismatch:
            mine = {name.lower() for name in schema.names}
            older = [field for field in self._schema if field.name.lower() not in mine]
            self._schema = pa.schema([*older, *schema])
        return self._schema

    def _new_file(self, values: Values, schema: pa.Schema) -> _OpenFile:
        directory = partition_directory(
            self._names, values, ascii_only=self._storage.has_ascii_names
        )
        name = f"{PREFIX}{uuid4().hex}.parquet"
        path = f"{directory}/{name}" if directory else name
        return _OpenFile(self._storage, path, schema, self._names)

    def _make_room(self) -> None:
        while len(self._open) >= self._max_open_files:
            oldest = next(iter(self._open))
            self._finish(oldest, self._open.pop(oldest))

    def _finish(self, values: Values, file: _OpenFile) -> None:
        self._waiting_bytes -= file.waiting_bytes
        self._finished.append(file.finish(dict(zip(self._names, values, strict=True))))


def _settings(schema: pa.Schema, partition_columns: Sequence[str]) -> dict[str, Any]:
    """Delta encoding for ascending integers, dictionaries for all other columns.

    Partition columns always have Parquet statistics, from which Iceberg's `add_files`, of other
    tools, takes partition values.
    """
    rising = [name for name in _RISING if name in schema.names and _is_64_bits(schema, name)]
    return {
        "compression": COMPRESSION,
        "compression_level": COMPRESSION_LEVEL,
        "use_dictionary": [name for name in _leaf_names(schema) if name not in rising],
        "column_encoding": dict.fromkeys(rising, "DELTA_BINARY_PACKED") or None,
        "write_statistics": list(dict.fromkeys([*bounded_columns(schema), *partition_columns])),
        "write_page_index": False,
        "store_schema": False,
    }


def _is_64_bits(schema: pa.Schema, name: str) -> bool:
    kind = schema.field(name).type
    return bool(pa.types.is_int64(kind) or pa.types.is_timestamp(kind))


def _leaf_names(fields: Iterable[pa.Field], above: str = "") -> Iterator[str]:
    """The names of leaf columns as Parquet has them."""
    for field in fields:
        kind, path = field.type, f"{above}{field.name}"
        if pa.types.is_struct(kind):
            yield from _leaf_names(kind, f"{path}.")
        elif pa.types.is_list(kind):
            yield from _leaf_names([pa.field("element", kind.value_type)], f"{path}.list.")
        elif pa.types.is_map(kind):
            parts = [pa.field("key", kind.key_type), pa.field("value", kind.item_type)]
            yield from _leaf_names(parts, f"{path}.key_value.")
        else:
            yield path
