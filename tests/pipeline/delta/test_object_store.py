"""Tables in an object store: all that a table in a directory does, and other readers."""

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sawlog.pipeline.delta import read
from sawlog.pipeline.delta.compaction import compact
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.restore import restore_offsets
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.tail import TableTail
from sawlog.pipeline.delta.upsert import upsert
from sawlog.pipeline.delta.vacuum import vacuum
from support.pipeline.lake import everything
from support.pipeline.lake_rows import same
from support.pipeline.s3_servers import ACCESS_KEY, SECRET_KEY, S3Server
from support.pipeline.tables import PIPELINE, at, contents, expected, land, new_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def lake(moto: S3Server) -> Table:
    return everything(moto.new_path())


def theirs(table: Table) -> DeltaTable:
    options = table.storage.delta_options()
    assert options is not None
    return DeltaTable(str(table.path), storage_options=dict(options))


def test_deltalake_reads_every_row(lake: Table) -> None:
    same(pa.table(theirs(lake).to_pyarrow_table()).to_pylist())


def test_polars_reads_every_row(lake: Table) -> None:
    options = dict(lake.storage.delta_options() or {})
    frame = pl.read_delta(str(lake.path), storage_options=options)
    same(frame.to_dicts())
    days = pl.scan_delta(str(lake.path), storage_options=options)
    found = days.filter(pl.col("landed") == date(2026, 1, 2)).collect()
    assert set(found["timestamp"].dt.date()) == {date(2026, 1, 2)}


@pytest.mark.parametrize("store", ["google", "azure"])
def test_tables_on_google_and_azure_have_the_same_readers(
    store: str, request: pytest.FixtureRequest
) -> None:
    table = everything(request.getfixturevalue(store).new_path())
    same(pa.table(theirs(table).to_pyarrow_table()).to_pylist())
    options = dict(table.storage.delta_options() or {})
    same(pl.read_delta(str(table.path), storage_options=options).to_dicts())


def test_duckdb_reads_every_row_over_the_dataset_of_deltalake(lake: Table) -> None:
    """DuckDB's own Delta reader is an extension that it would fetch."""
    dataset = theirs(lake).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("lake", dataset)
        rows = connection.sql("SELECT * FROM lake").to_arrow_table().to_pylist()
        days = connection.sql("SELECT count(*) FROM lake WHERE landed = DATE '2026-01-02'")
        assert days.fetchall() == [(5,)]
    same(rows)


def test_spark_reads_every_row_without_a_jar(lake: Table, spark: "SparkSession") -> None:
    frame = read(spark, str(lake.path), storage_options=lake.path.options)
    same(row.asDict(recursive=True) for row in frame.collect())
    first = read(spark, lake.path, version=1)
    assert first.count() == 10
    plan = frame._jdf.queryExecution().toString()
    assert SECRET_KEY not in plan
    assert ACCESS_KEY not in plan


def test_spark_streams_a_table(moto: S3Server, spark: "SparkSession", tmp_path: object) -> None:
    from sawlog.pipeline.delta.table_source import register

    table = new_table(moto.new_path())
    land(table, 0, 0, 10)
    stream = spark.readStream.format(register(spark, table.path.options))
    found: list[int] = []
    query = (
        stream.option("path", str(table.path)).load().writeStream
        .foreachBatch(lambda rows, _: found.extend(row["offset"] for row in rows.collect()))
        .option("checkpointLocation", f"file://{tmp_path}/checkpoint")
    )  # fmt: skip
    for end in (20, 30):
        land(table, 0, end - 10, end)
        query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(found) == list(range(30))


def test_compaction_by_spark_tasks(moto: S3Server, spark: "SparkSession") -> None:
    table = new_table(moto.new_path(), ["date(timestamp)"])
    for start in range(0, 40, 10):
        land(table, 0, start, start + 10, days=2)
    done = compact(spark, table.path)
    assert (done.files_before, done.files_after) == (8, 2)
    assert contents(Table.open(table.path)) == expected({0: 40})


def test_a_table_lives_as_in_a_directory(moto: S3Server) -> None:
    """Landing, checkpoints, compaction, tail, restore and vacuum."""
    table = new_table(moto.new_path(), ["date(timestamp)"])
    tail = TableTail(table.path)
    position = tail.snapshot_start()
    for start in range(0, 520, 10):
        land(table, 0, start, start + 10, days=2)
    assert "00000000000000000050.checkpoint.parquet" in table.storage.names("_delta_log")
    end = tail.advance(position)
    seen = [
        row["offset"]
        for file in tail.between(position, end)
        for batch in scan_file(table.storage, file.path, table.schema, file.partition_values)
        for row in batch.to_pylist()
    ]
    assert sorted(seen) == list(range(520))
    assert compact(None, table.path).files_after == 2
    fresh = Table.open(table.path)
    assert contents(fresh) == expected({0: 520})
    restore_offsets(fresh, PIPELINE, {at(0): 100})
    assert contents(fresh) == expected({0: 100})
    before = sum(1 for _ in fresh.storage.walk())
    assert vacuum(fresh, orphan_ms=-60_000, tombstone_ms=-60_000).files == 106
    assert sum(1 for _ in fresh.storage.walk()) == before - 106
    assert contents(Table.open(table.path)) == expected({0: 100})
    assert theirs(fresh).to_pyarrow_table().num_rows == 100


def test_upserts_replace_rows(moto: S3Server) -> None:
    schema = pa.schema({"k": pa.string(), "day": pa.date32(), "n": pa.int64()})
    table = new_table(moto.new_path(), ["day"], schema=schema)
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    for number in range(3):
        rows = pa.table({"k": ["a", "b"], "day": days, "n": [number, -number]}, schema=schema)
        upsert(table, rows, ["k"], "query", number)
    found = theirs(table).to_pyarrow_table().sort_by("k").to_pylist()
    assert found == [{"k": "a", "day": days[0], "n": 2}, {"k": "b", "day": days[1], "n": -2}]


def test_every_entry_has_a_commit_id_of_its_own(moto: S3Server) -> None:
    table = new_table(moto.new_path())
    for start in range(0, 30, 10):
        land(table, 0, start, start + 10)
    ids = [(table.log.entry(version) or [])[0]["commitInfo"]["txnId"] for version in range(4)]
    assert len(set(ids)) == 4


def test_times_of_files_are_those_of_the_store(moto: S3Server) -> None:
    table = new_table(moto.new_path())
    land(table, 0, 0, 1)
    (file,) = [found for found in table.storage.walk() if found.path.endswith(".parquet")]
    age = datetime.now(UTC).timestamp() - file.modified_ms / 1_000
    assert -60 < age < 3_600
