"""Other readers of the tables: deltalake, Polars, DuckDB and, if Maven has it, delta-spark."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from sawlog.pipeline.delta.data_files import decode_path
from sawlog.pipeline.delta.table import Table
from support.pipeline.delta_spark import require_delta_spark
from support.pipeline.lake import KINDS, everything, expected
from support.pipeline.lake_rows import same
from support.pipeline.tables import contents, land, new_table


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return everything(tmp_path_factory.mktemp("lake") / "t")


def test_deltalake_reads_every_row(lake: Table) -> None:
    same(pa.table(DeltaTable(lake.path).to_pyarrow_table()).to_pylist())


def test_deltalake_finds_rows_by_our_statistics(lake: Table) -> None:
    """A bound narrower than the data would hide rows."""
    table = DeltaTable(lake.path)
    for number in range(30):
        query = table.to_pyarrow_dataset().filter(pa.compute.field("offset") == number)
        assert query.to_table().num_rows == 1


def test_polars_reads_every_row(lake: Table) -> None:
    frame = pl.read_delta(lake.path)
    same(frame.to_dicts())
    scan = pl.scan_delta(lake.path)
    for number in range(0, 30, 4):
        moment = expected(number)["timestamp"]
        if moment is not None:
            found = scan.filter(pl.col("timestamp") == moment).collect()
            assert found["offset"].to_list() == [number]
    days = scan.filter(pl.col("landed") == datetime(2026, 1, 2, tzinfo=UTC).date()).collect()
    assert sorted(days["offset"]) == [
        number for number in range(30) if str(expected(number)["landed"]) == "2026-01-02"
    ]


def test_duckdb_reads_the_listed_files(lake: Table) -> None:
    paths = [lake.storage.full(decode_path(file.path)) for file in lake.files()]
    query = "SELECT * FROM read_parquet($1, hive_partitioning = true, union_by_name = true)"
    with duckdb.connect() as connection:
        rows = connection.sql(query, params=[paths]).to_arrow_table().to_pylist()
    # DuckDB infers the type of values in directory names.
    same(rows, without=frozenset({"landed", "country"}))


def test_the_data_files_alone_have_every_row(lake: Table) -> None:
    paths = [lake.storage.full(decode_path(file.path)) for file in lake.files()]
    found = [pq.read_table(path, partitioning=None) for path in paths]
    assert sum(table.num_rows for table in found) == 30
    assert {name for table in found for name in table.schema.names} == {*KINDS, "later", "landed"}
    rows = pa.concat_tables(found, promote_options="default").to_pylist()
    assert len(rows) == 30
    for row in rows:
        wanted = expected(row["offset"])
        assert (row["landed"], row["country"]) == (wanted["landed"], wanted["country"])


def test_deltalake_and_sawlog_can_write_to_the_same_table(tmp_path: Path) -> None:
    """Its vacuum keeps our files, and we read its commits."""
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 10)
    theirs = DeltaTable(table.path)
    theirs.delete("offset >= 7")
    theirs.optimize.compact()
    theirs.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    land(table, 0, 10, 12)
    assert [offset for _, offset, _ in contents(table)] == [*range(7), 10, 11]


DELTA_SPARK = """
import json, sys
from pyspark.sql import SparkSession
jars, path = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", jars)
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)
frame = spark.read.format("delta").load(path)
rows = frame.selectExpr("offset", "cast(landed as string) landed", "country", "later").collect()
print(json.dumps([row.asDict() for row in rows]))
print(json.dumps(sorted(frame.columns)))
print(frame.where("offset = 17 and timestamp is not null").count())
spark.stop()
"""


@pytest.mark.long
@pytest.mark.spark
def test_delta_spark_reads_every_row(lake: Table, tmp_path: Path) -> None:
    environment, jars = require_delta_spark()
    script = tmp_path / "read.py"
    script.write_text(DELTA_SPARK)
    command = [sys.executable, str(script), jars, lake.path]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=900, env={**os.environ, **environment}
    )
    assert run.returncode == 0, run.stderr[-3000:]
    rows, columns, counted = (json.loads(line) for line in run.stdout.splitlines()[-3:])
    assert columns == sorted(expected(0))
    assert counted == (expected(17)["timestamp"] is not None)
    assert len(rows) == 30
    for found in sorted(rows, key=lambda entry: int(entry["offset"])):
        wanted = expected(found["offset"])
        landed = None if wanted["landed"] is None else str(wanted["landed"])
        assert (found["landed"], found["country"], found["later"]) == (
            landed, wanted["country"], wanted["later"],
        )  # fmt: skip
