"""Queries over tables and topics: exactly once, even if the checkpoint is lost."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sawlog.client.net.cluster import Cluster
from sawlog.pipeline.landing.driver.pipeline_status import State, statuses
from support.pipeline.landing import create_topic, land, pipeline_of, rows_of, run_once, send
from support.server.broker_process import SawlogServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = """\
  visits: {{topic: {topic}, format: json, schema: 'page STRING, at TIMESTAMP'}}
  minutes:
    sql: >
      SELECT window(at, '1 minute').start AS minute, page, count(*) AS visits
      FROM visits GROUP BY window(at, '1 minute'), page
    key: [minute, page]
    watermark: {{at: 10m}}
  homes:
    sql: SELECT partition, offset, at FROM visits WHERE page = '/'
"""


def visit(second: int, page: str = "/") -> dict[str, Any]:
    return {"page": page, "at": f"2025-01-01T00:{second // 60:02}:{second % 60:02}Z"}


def counts(path: str) -> dict[tuple[str, str], int]:
    rows = rows_of(path)
    found = {(row["minute"].strftime("%H:%M"), row["page"]): row["visits"] for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def test_aggregates_and_filters_survive_a_lost_checkpoint(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    pipeline = pipeline_of(tmp_path, broker.bootstrap, TABLES.format(topic=topic))
    minutes, homes = pipeline.queries
    send(broker.bootstrap, topic, [visit(1), visit(59, "/a"), visit(61), visit(62)])
    land(spark, pipeline)
    assert counts(minutes.path) == {("00:00", "/"): 1, ("00:00", "/a"): 1, ("00:01", "/"): 2}
    assert len(rows_of(homes.path)) == 3
    send(broker.bootstrap, topic, [visit(63), visit(121), visit(2)])
    land(spark, pipeline)
    expected = {("00:00", "/"): 2, ("00:00", "/a"): 1, ("00:01", "/"): 3, ("00:02", "/"): 1}
    assert counts(minutes.path) == expected
    assert len(rows_of(homes.path)) == 6
    for query in (minutes, homes):
        shutil.rmtree(query.checkpoint)
    land(spark, pipeline)
    assert counts(minutes.path) == expected
    places = [(row["partition"], row["offset"]) for row in rows_of(homes.path)]
    assert len(places) == len(set(places)) == 6


def test_a_query_may_read_a_topic(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [b"a", b"b", b"a"])
    tables = (
        f"  words:\n    topics: [{topic}]\n    key: [word]\n    sql: >\n"
        f"      SELECT CAST(value AS STRING) AS word, count(*) AS n FROM `{topic}` GROUP BY 1\n"
    )
    pipeline = pipeline_of(tmp_path, broker.bootstrap, tables)
    land(spark, pipeline)
    send(broker.bootstrap, topic, [b"a", b"c"])
    land(spark, pipeline)
    found = {row["word"]: row["n"] for row in rows_of(pipeline.queries[0].path)}
    assert found == {"a": 3, "b": 1, "c": 1}


def test_a_sql_error_is_reported_in_one_line_with_its_position(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    tables = f"  words:\n    topics: [{topic}]\n    sql: SELECT value FROM `{topic}` WHRE x\n"
    outcomes, _ = run_once(spark, pipeline_of(tmp_path, broker.bootstrap, tables))
    (failure,) = [outcome.failure for outcome in outcomes]
    assert failure is not None
    column = len(f"SELECT value FROM `{topic}` WHRE ") + 1
    assert failure.message == (
        f"the query of 'words': syntax error at line 1, column {column}: at or near 'x': extra"
        " input 'x' [PARSE_SYNTAX_ERROR]"
    )


@pytest.mark.parametrize(
    ("sql", "advice"),
    [
        ("SELECT no_such FROM t", "`no_such` cannot be resolved"),
        ("SELECT count(*) AS n FROM t", "name the columns that identify a row (key: [...])"),
    ],
)
def test_a_query_that_cannot_start_is_stopped_after_the_run(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path, sql: str, advice: str
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [{"id": 1}])
    tables = f"  t: {{topic: {topic}, format: json}}\n  q: {{sql: '{sql}'}}\n"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, tables)
    run_once(spark, pipeline)
    with Cluster(broker.bootstrap) as cluster:
        landed, query = statuses(pipeline, cluster, lambda _: None)
    assert (landed.state, query.state) == (State.READY, State.STOPPED)
    assert query.reason is not None
    assert advice in query.reason
