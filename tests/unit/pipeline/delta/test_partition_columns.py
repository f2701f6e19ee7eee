"""Partition columns are in the files too; older files without them stay readable."""

from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from sawlog.pipeline.delta.compaction import compact
from sawlog.pipeline.delta.data_files import decode_path
from sawlog.pipeline.delta.errors import TableError
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.restore import restore_offsets
from sawlog.pipeline.delta.table import Table
from support.pipeline.lake import everything
from support.pipeline.lake_rows import same
from support.pipeline.old_files import make_old
from support.pipeline.tables import PIPELINE, at, contents, expected, land, new_table, rows, written

DAYS = ["date(timestamp) as day", "topic"]


def names_in_files(table: Table) -> list[set[str]]:
    paths = [table.storage.full(decode_path(file.path)) for file in table.files()]
    return [set(pq.read_schema(path).names) for path in paths]


def all_rows(table: Table) -> list[dict[str, Any]]:
    batches = [
        batch
        for file in table.files()
        for batch in scan_file(table.storage, file.path, table.schema, file.partition_values)
    ]
    return pa.Table.from_batches(batches, table.schema).to_pylist()


def test_every_file_has_all_columns(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", DAYS)
    land(table, 0, 0, 10, days=3)
    assert all(names == set(table.schema.names) for names in names_in_files(table))
    assert {row["day"] for row in all_rows(table)} == {date(1970, 1, day) for day in (1, 2, 3)}


def test_a_partition_column_has_parquet_statistics_of_one_value(tmp_path: Path) -> None:
    """Iceberg takes the values of partitions from there."""
    table = new_table(tmp_path / "t", DAYS)
    land(table, 0, 0, 10, days=3)
    for file in table.files():
        metadata = pq.read_metadata(table.storage.full(decode_path(file.path)))
        group = metadata.row_group(0)
        columns = {group.column(n).path_in_schema: group.column(n).statistics for n in range(6)}
        assert columns["topic"].min == columns["topic"].max == "access"
        assert str(columns["day"].min) == str(columns["day"].max) == file.partition_values["day"]


def test_an_empty_text_is_null_in_the_log_and_in_the_file(tmp_path: Path) -> None:
    schema = pa.schema({"offset": pa.int64(), "country": pa.string()})
    table = new_table(tmp_path / "t", ["country"], schema=schema)
    batch = pa.RecordBatch.from_pydict({"offset": [0, 1], "country": ["", None]}, schema)
    files = written(table, batch)
    table.commit(PIPELINE, files, {at(0): OffsetSpan(0, 2)})
    (file,) = table.files()
    path = table.storage.full(decode_path(file.path))
    assert pq.read_table(path, partitioning=None)["country"].to_pylist() == [None, None]
    assert DeltaTable(table.path).to_pyarrow_table()["country"].to_pylist() == [None, None]


def test_a_file_without_partition_columns_is_not_committed(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", DAYS)
    (file,) = written(table, rows(0, range(3)))
    without = [field for field in file.schema if field.name != "day"]
    with pytest.raises(TableError, match=r"lacks the partition columns \['day'\]"):
        table.commit(
            PIPELINE, [file._replace(schema=pa.schema(without))], {at(0): OffsetSpan(0, 3)}
        )


def test_old_files_are_read_beside_new_ones(tmp_path: Path) -> None:
    table = everything(tmp_path / "t")
    make_old(table)
    table = Table.open(table.path)
    assert not any({"landed", "country"} & names for names in names_in_files(table))
    same(all_rows(table))
    same(pa.table(DeltaTable(table.path).to_pyarrow_table()).to_pylist())
    same(pl.read_delta(table.path).to_dicts())


def test_compaction_merges_old_and_new_files_into_new_ones(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", DAYS)
    land(table, 0, 0, 10, days=2)
    make_old(table)
    table = Table.open(table.path)
    land(table, 0, 10, 20, days=2)
    before = sorted(all_rows(table), key=lambda row: row["offset"])
    compact(None, table.path)
    table.refresh()
    assert [names == set(table.schema.names) for names in names_in_files(table)] == [True, True]
    assert sorted(all_rows(table), key=lambda row: row["offset"]) == before


def test_a_restore_rewrites_old_files(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", DAYS)
    land(table, 0, 0, 10, days=2)
    make_old(table)
    table = Table.open(table.path)
    restore_offsets(table, PIPELINE, {at(0): 5})
    assert contents(table) == expected({0: 5})
    assert all(names == set(table.schema.names) for names in names_in_files(table))
