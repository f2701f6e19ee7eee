"""Small Iceberg tables for tests, with rows as the landing writes them."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion
from sawlog.pipeline.delta.table_path import AnyPath, StorageOptions, TablePath
from sawlog.pipeline.iceberg.catalogs import CatalogConfig, embedded_catalog
from sawlog.pipeline.iceberg.iceberg_table import IcebergTable, TableRef
from support.pipeline.tables import PIPELINE, SCHEMA, at, rows


def rest_catalog(uri: str) -> CatalogConfig:
    return CatalogConfig("rest", options=StorageOptions({"uri": uri}))


def table_ref(lake: AnyPath, name: str, catalog: CatalogConfig | None = None) -> TableRef:
    """A table in this directory; its catalog is the embedded one unless another is given."""
    path = TablePath(lake)
    return TableRef(catalog or embedded_catalog(path), name, path.child(name))


def new_iceberg(
    ref: TableRef,
    partition_by: Sequence[str] = (),
    starts: Mapping[TopicPartition, int] | None = None,
    *,
    schema: pa.Schema = SCHEMA,
) -> IcebergTable:
    return IcebergTable.create(ref, schema, partition_by, starts or {}, PIPELINE)


def land(
    table: IcebergTable, partition: int, start: int, end: int, *, days: int = 1
) -> CommittedVersion | AlreadyCommitted:
    """Land all records with these offsets in one commit."""
    with FileWriter(table.storage, table.partition_by) as writer:
        writer.write(rows(partition, range(start, end), days=days))
        files = writer.close()
    return table.commit(PIPELINE, files, {at(partition): OffsetSpan(start, end)})


def is_iceberg(path: AnyPath) -> bool:
    return os.path.isdir(f"{os.fspath(path)}/metadata")


def embedded_ref(path: AnyPath) -> TableRef:
    """The table in this directory, in the embedded catalog of its lake."""
    lake, _, name = os.fspath(path).rpartition("/")
    return table_ref(lake, name)


def iceberg_rows(ref: TableRef) -> list[dict[str, Any]]:
    """All rows by pyiceberg's reader."""
    found: list[dict[str, Any]] = (
        ref.open_catalog().load_table(ref.identifier).scan().to_arrow().to_pylist()
    )
    return found


def iceberg_contents(ref: TableRef) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of every row by pyiceberg's reader, sorted, with duplicates."""
    found = ref.open_catalog().load_table(ref.identifier).scan().to_arrow()
    columns = [found[name].to_pylist() for name in ("partition", "offset", "value")]
    return sorted(zip(*columns, strict=True))
