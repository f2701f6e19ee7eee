"""Spark on tables: batch reads, streams, and compaction in tasks."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sawlog.pipeline.delta import read
from sawlog.pipeline.delta.compaction import compact
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.table import Table
from support.pipeline.lake import everything, expected
from support.pipeline.old_files import make_old
from support.pipeline.tables import PIPELINE, at, contents, land, new_table, rows, written
from support.pipeline.tables import expected as expected_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_dataframe_has_every_row_of_a_table(spark: "SparkSession", tmp_path: Path) -> None:
    table = everything(tmp_path / "t[1] {x}")
    found = read(spark, table.path).orderBy("offset").collect()
    assert [row["offset"] for row in found] == list(range(30))
    for row in found:
        wanted = expected(row["offset"])
        assert row["country"] == wanted["country"]
        assert row["landed"] == wanted["landed"]
        assert row["later"] == wanted["later"]
        assert row["money"] == wanted["money"]
        assert row["user agent"] == wanted["user agent"]
        struct = row["struct"]
        assert (struct and struct.asDict()) == wanted["struct"]


def test_a_dataframe_has_the_rows_of_files_with_and_without_partition_columns(
    spark: "SparkSession", tmp_path: Path
) -> None:
    table = new_table(tmp_path / "t", ["date(timestamp) as day", "topic"])
    land(table, 0, 0, 10, days=2)
    make_old(table)
    table = Table.open(table.path)
    land(table, 0, 10, 20, days=2)
    found = read(spark, table.path).orderBy("offset").collect()
    assert [row["offset"] for row in found] == list(range(20))
    assert all(row["day"] == row["timestamp"].date() for row in found)
    assert {row["topic"] for row in found} == {"access"}


def test_an_old_version_can_be_read(spark: "SparkSession", tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 4)
    land(table, 0, 4, 9)
    compact(None, table.path)
    assert [read(spark, table.path, version=number).count() for number in range(4)] == [0, 4, 9, 9]
    assert read(spark, table.path, version=0).columns == table.schema.names


def test_a_partition_value_too_long_for_a_directory_is_kept(
    spark: "SparkSession", tmp_path: Path
) -> None:
    long = "ü" * 300
    schema = pa.schema([pa.field("key", pa.string()), pa.field("n", pa.int64())])
    table = new_table(tmp_path / "t", ["key"], schema=schema)
    batch = pa.RecordBatch.from_pydict({"key": [long, "short", None], "n": [1, 2, 3]})
    table.commit(PIPELINE, written(table, batch), {at(0): OffsetSpan(0, 3)})
    found = {row["n"]: row["key"] for row in read(spark, table.path).collect()}
    assert found == {1: long, 2: "short", 3: None}


def test_spark_merges_small_files(spark: "SparkSession", tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", ["date(timestamp)"])
    for start in range(0, 30, 5):
        land(table, 0, start, start + 5, days=3)
    done = compact(spark, table.path)
    assert (done.files_before, done.files_after, done.conflicts) == (18, 3, 0)
    assert contents(Table.open(table.path)) == expected_rows({0: 30})


def run(frame: "DataFrame", checkpoint: Path, batch: Callable[["DataFrame", int], None]) -> None:
    """Run a stream up to the current end."""
    writer = frame.writeStream.foreachBatch(batch).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        assert query.awaitTermination(120), "the query did not end"
    finally:
        query.stop()


def test_a_stream_sees_every_row_once_over_restarts(spark: "SparkSession", tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", ["date(timestamp)"])
    land(table, 0, 0, 10, days=2)
    land(table, 0, 10, 20, days=2)
    batches: dict[int, list[int]] = {}

    def note(frame: "DataFrame", number: int) -> None:
        assert number not in batches
        batches[number] = [row["offset"] for row in frame.select("offset").collect()]

    def follow() -> "DataFrame":
        reader = spark.readStream.format("sawlog-table").option("maxFilesPerTrigger", "3")
        return reader.load(table.path)

    run(follow(), tmp_path / "checkpoint", note)
    assert len(batches) == 2
    land(table, 0, 20, 25)
    compact(None, table.path)
    wide = rows(0, range(25, 30)).append_column("later", pa.array(["x"] * 5))
    table.commit(PIPELINE, written(table, wide), {at(0): OffsetSpan(25, 30)}, schema=wide.schema)
    run(follow(), tmp_path / "checkpoint", note)
    assert sorted(number for batch in batches.values() for number in batch) == list(range(30))


def test_a_repeated_first_batch_reads_the_same_rows(spark: "SparkSession", tmp_path: Path) -> None:
    """The driver dies in batch 0; before it restarts the table grows and is compacted."""
    table = new_table(tmp_path / "t")
    for start in range(0, 20, 5):
        land(table, 0, start, start + 5)
    seen: list[list[int]] = []

    def die(frame: "DataFrame", number: int) -> None:
        seen.append(sorted(row["offset"] for row in frame.select("offset").collect()))
        raise RuntimeError("the driver dies here")

    def note(frame: "DataFrame", number: int) -> None:
        seen.append(sorted(row["offset"] for row in frame.select("offset").collect()))

    def follow() -> "DataFrame":
        return spark.readStream.format("sawlog-table").load(table.path)

    with pytest.raises(Exception, match="the driver dies here"):
        run(follow(), tmp_path / "checkpoint", die)
    land(table, 0, 20, 25)
    compact(None, table.path)
    run(follow(), tmp_path / "checkpoint", note)
    assert seen[0] == list(range(20))
    assert seen[1:] == [list(range(20)), list(range(20, 25))]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"maxFilePerTrigger": "3"}, "did you mean 'maxFilesPerTrigger'"),
        ({"maxFilesPerTrigger": "0"}, "a number from 1 up, not '0'"),
        ({"startingVersion": "soon"}, "a number from 0 up, not 'soon'"),
        ({"skipChangeCommits": "yes"}, "must be true or false, not 'yes'"),
    ],
)
def test_invalid_options_are_rejected_by_name(options: dict[str, str], said: str) -> None:
    from sawlog.pipeline.delta.table_source import TableOptions

    with pytest.raises(ValueError, match=said):
        TableOptions({"path": "t", **options})


def test_a_path_is_needed() -> None:
    from sawlog.pipeline.delta.table_source import TableOptions

    with pytest.raises(ValueError, match="'path' is missing"):
        TableOptions({})


def test_a_batch_read_by_the_source_has_every_row(spark: "SparkSession", tmp_path: Path) -> None:
    table = everything(tmp_path / "t")
    reader = spark.read.format("sawlog-table")
    found: list[Any] = reader.load(table.path).orderBy("offset").collect()
    assert [row["offset"] for row in found] == list(range(30))
    for row in found:
        wanted = expected(row["offset"])
        assert (row["landed"], row["country"], row["map"]) == (
            wanted["landed"], wanted["country"], wanted["map"],
        )  # fmt: skip
    assert reader.option("version", "1").load(table.path).count() == 10
