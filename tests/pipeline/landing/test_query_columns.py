"""Columns added to a table while a query reads it are in the result from their first row on."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pytest

from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.widening import widen_columns
from sawlog.pipeline.landing.configuration.pipeline_config import (
    LandedTable,
    PipelineConfig,
    QueryTable,
)
from sawlog.pipeline.landing.driver.query_supervisor import QuerySupervisor
from sawlog.pipeline.landing.driver.spark_session import register
from sawlog.pipeline.landing.driver.sql_query import SqlQuery
from support.pipeline.landing import RecordedEvents, rows_of
from support.pipeline.tables import at, written
from support.process import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = pa.schema([pa.field("offset", pa.int64()), pa.field("key", pa.string())])
"""The columns of a table with inferred columns before its first row."""
Row = dict[str, Any]


class Source:
    """A table as a landing fills it: new fields become columns together with their rows."""

    def __init__(self, directory: Path, name: str) -> None:
        self.config = LandedTable(name, str(directory / name), name, "g", format="json")
        self._next = 0

    def create(self) -> None:
        Table.create(self.config.path, FIRST, (), {}, "g")

    def land(self, *fields: Row) -> None:
        rows = [{"offset": self._next + n, **row} for n, row in enumerate(fields)]
        batch = pa.RecordBatch.from_pylist(rows)
        table = Table.open(self.config.path)
        span = OffsetSpan(self._next, self._next + len(rows))
        table.commit("g", written(table, batch), {at(0): span}, schema=batch.schema)
        self._next += len(rows)


class World:
    """Sources and a query over them, supervised as by a run without `--once`."""

    def __init__(
        self, spark: "SparkSession", directory: Path, sources: int, sql: str, *key: str
    ) -> None:
        register(spark)
        self.sources = [Source(directory, f"ev{number}") for number in range(sources)]
        self.query = QueryTable(
            "q", str(directory / "q"), sql, str(directory / "c"), key=key,
            tables=tuple(source.config.name for source in self.sources), every_s=0.05,
        )  # fmt: skip
        tables = (*(source.config for source in self.sources), self.query)
        self.events = RecordedEvents()
        pipeline = PipelineConfig("p.yaml", "127.0.0.1:1", str(directory), tables)
        self.step = SqlQuery(spark, pipeline, self.query, self.events)
        self._watched = QuerySupervisor(self.step, self.events, threading.Event(), once=False)
        self._now_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watched.stop()

    def run_until(self, is_so: Callable[[], bool]) -> None:
        def look() -> bool:
            self._now_s += 10  # all backoffs are over
            self._watched.poll(self._now_s)
            assert self._watched.outcome is None, self.events.lines
            return is_so()

        wait_until(look)

    def rows(self) -> list[Row]:
        if not Table.exists(self.query.path):
            return []
        return sorted(rows_of(self.query.path), key=lambda row: str(row.get("offset", row)))

    def query_ids(self) -> list[str]:
        """The ids of queries that filled the table: a new one each time the query starts over."""
        return list(Table.open(self.query.path).snapshot.transactions)


def test_a_query_that_copies_a_table_gets_new_columns_from_their_first_row(
    spark: "SparkSession", tmp_path: Path
) -> None:
    with World(spark, tmp_path, 1, "SELECT * FROM ev0") as world:
        (source,) = world.sources
        world.run_until(lambda: bool(world.events.lines))
        assert world.events.lines == ["q: the table 'ev0' does not exist yet; waiting for it"]
        source.create()
        world.run_until(lambda: Table.exists(world.query.path))
        source.land({"page": "/"}, {"page": "/a"})
        source.land({"page": "/b", "user": {"id": 1}})
        source.land({"user": {"id": 2, "name": "x"}, "page": "/c"})
        world.run_until(lambda: len(world.rows()) == 4)
        assert world.rows() == sorted(rows_of(source.config.path), key=lambda row: row["offset"])
        assert world.rows()[2]["user"] == {"id": 1, "name": None}
        assert world.rows()[3]["user"] == {"id": 2, "name": "x"}
        assert len(world.query_ids()) == 1


@pytest.mark.long
def test_a_query_that_copies_a_table_follows_a_column_that_becomes_double(
    spark: "SparkSession", tmp_path: Path
) -> None:
    with World(spark, tmp_path, 1, "SELECT * FROM ev0") as world:
        (source,) = world.sources
        source.create()
        source.land({"price": 1}, {"price": 2})
        world.run_until(lambda: len(world.rows()) == 2)
        assert widen_columns(Table.open(source.config.path), ["price"])
        source.land({"price": 0.5})
        world.run_until(lambda: len(world.rows()) == 3)
        assert [row["price"] for row in world.rows()] == [1.0, 2.0, 0.5]
        assert len(world.query_ids()) == 1


def test_a_batch_planned_before_a_new_column_is_committed_once(
    spark: "SparkSession", tmp_path: Path
) -> None:
    with World(spark, tmp_path, 1, "SELECT * FROM ev0") as world:
        (source,) = world.sources
        source.create()
        source.land({"page": "/"})
        run = world.step.start(once=False)
        checkpoint = Path(world.query.checkpoint)
        wait_until((checkpoint / "commits" / "0").exists)
        run._commits.stop_accepting()
        source.land({"page": "/a"})
        wait_until(lambda: not run.query.isActive)
        run.stop()
        assert (checkpoint / "offsets" / "1").exists()
        assert not (checkpoint / "commits" / "1").exists()
        source.land({"page": "/b", "more": 1})
        world.run_until(lambda: len(world.rows()) == 3)
        assert [(row["page"], row["more"]) for row in world.rows()] == [
            ("/", None), ("/a", None), ("/b", 1),
        ]  # fmt: skip
        assert len(world.query_ids()) == 1


@pytest.mark.parametrize(
    ("aggregate", "begins", "expected"),
    [
        ("count(*)", 1, [2, 1]),
        pytest.param("max_by(struct(*), offset)", 2, [
            {"offset": 2, "key": None, "page": "/", "more": 1},
            {"offset": 1, "key": None, "page": "/a", "more": None},
        ], marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_an_aggregate_keeps_its_state_unless_the_new_column_is_part_of_it(
    spark: "SparkSession", tmp_path: Path, aggregate: str, begins: int, expected: list[Any]
) -> None:
    sql = f"SELECT page, {aggregate} AS found FROM (SELECT * FROM ev0) GROUP BY page"
    with World(spark, tmp_path, 1, sql, "page") as world:
        (source,) = world.sources
        source.create()
        source.land({"page": "/"}, {"page": "/a"})
        world.run_until(lambda: len(world.rows()) == 2)
        source.land({"page": "/", "more": 1})
        world.run_until(lambda: world.rows() and _by_page(world)["/"] == expected[0])
        assert _by_page(world) == {"/": expected[0], "/a": expected[1]}
        assert len(world.query_ids()) == begins


def _by_page(world: World) -> dict[str, Any]:
    return {row["page"]: row["found"] for row in world.rows()}


@pytest.mark.long
def test_a_union_waits_until_both_of_its_tables_have_the_new_column(
    spark: "SparkSession", tmp_path: Path
) -> None:
    sql = "SELECT 0 AS source, * FROM ev0 UNION ALL SELECT 1, * FROM ev1"
    with World(spark, tmp_path, 2, sql) as world:
        for source in world.sources:
            source.create()
            source.land({"page": "/"})
        world.run_until(lambda: len(world.rows()) == 2)
        world.sources[0].land({"page": "/a", "more": 1})
        world.run_until(lambda: any("UNION can only" in line for line in world.events.lines))
        world.sources[1].land({"page": "/b", "more": 2})
        world.run_until(lambda: len(world.rows()) == 4)
        found = {(row["source"], row["offset"], row["page"], row["more"]) for row in world.rows()}
        assert found == {(0, 0, "/", None), (1, 0, "/", None), (0, 1, "/a", 1), (1, 1, "/b", 2)}
