"""A SQL query on the driver: its start, and the commits of its batches."""

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException, ParseException

from sawlog.client.errors import NoBrokerReachable
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig, QueryTable
from sawlog.pipeline.landing.driver.query_output import open_query_table
from sawlog.pipeline.landing.driver.query_run import LateBatch
from sawlog.pipeline.landing.driver.sql_query import (
    SqlCommitter,
    SqlQuery,
    check_watermark,
    make_checkpoint,
    start_failure,
)
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from support.pipeline.landing import RecordedEvents, rows_of

ROWS = pa.schema([("id", pa.int64()), ("v", pa.int64())])


class Frame:
    """The part of a batch that the driver uses."""

    def __init__(self, *rows: tuple[int, int]) -> None:
        self._rows = [{"id": key, "v": value} for key, value in rows]

    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.Table.from_pylist(self._rows, ROWS)


def keyed(directory: Path) -> QueryTable:
    return QueryTable(
        "q", str(directory / "q"), "SELECT", str(directory / "c"), key=("id",), tables=("t",)
    )


def step_of(config: QueryTable, spark: Any = None) -> SqlQuery:
    return SqlQuery(
        spark, PipelineConfig("p.yaml", "127.0.0.1:1", "lake", (config,)), config, RecordedEvents()
    )


def committer_of(config: QueryTable, query_id: str = "first") -> SqlCommitter:
    table = open_query_table(config.path, ROWS, config.partition_by, config.name)
    return SqlCommitter(step_of(config), table, query_id)


def commit_batch(committer: SqlCommitter, batch_id: int, *rows: tuple[int, int]) -> None:
    frame: Any = Frame(*rows)
    committer(frame, batch_id)


def pairs(config: QueryTable) -> list[tuple[int, int]]:
    return sorted((row["id"], row["v"]) for row in rows_of(config.path))


def test_a_batch_after_the_stop_is_not_recorded_and_repeated(tmp_path: Path) -> None:
    config = keyed(tmp_path)
    committer = committer_of(config)
    commit_batch(committer, 0, (1, 1))
    committer.stop_accepting()
    with pytest.raises(LateBatch, match="batch 1 of 'q'"):
        commit_batch(committer, 1, (2, 2))
    assert pairs(config) == [(1, 1)]
    commit_batch(committer_of(config), 1, (2, 2))
    assert pairs(config) == [(1, 1), (2, 2)]
    assert Table.open(config.path).snapshot.transactions == {"first": 1}


@pytest.mark.parametrize("partition_by", [(), ("id",)])
def test_a_key_exists_once_after_the_query_starts_over(
    tmp_path: Path, partition_by: tuple[str, ...]
) -> None:
    config = replace(keyed(tmp_path), partition_by=partition_by)
    commit_batch(committer_of(config), 0, (1, 1), (2, 1), (9, 1), (1, 2))
    assert pairs(config) == [(1, 2), (2, 1), (9, 1)]
    second = committer_of(config, "second")
    commit_batch(second, 0, (1, 1), (2, 1), (1, 2), (1, 3))
    assert pairs(config) == [(1, 3), (2, 1)]
    commit_batch(second, 0, (1, 1), (2, 1), (1, 2), (1, 3))
    commit_batch(second, 1, (2, 5))
    assert pairs(config) == [(1, 3), (2, 5)]


def test_a_query_that_starts_over_without_rows_leaves_none(tmp_path: Path) -> None:
    config = keyed(tmp_path)
    commit_batch(committer_of(config), 0, (1, 1))
    second = committer_of(config, "second")
    commit_batch(second, 0)
    commit_batch(second, 1, (2, 2))
    assert pairs(config) == [(2, 2)]


@pytest.mark.parametrize(("was", "told"), [(("id",), "by id"), ((), "by nothing")])
def test_a_table_of_another_partitioning_is_rejected(
    tmp_path: Path, was: tuple[str, ...], told: str
) -> None:
    config = keyed(tmp_path)
    committer_of(replace(config, partition_by=was))
    committer_of(replace(config, partition_by=was))
    with pytest.raises(LandingFailure, match=f"is partitioned {told}, the file says") as found:
        committer_of(replace(config, partition_by=("v",)))
    assert found.value.kind is FailureKind.INVALID


class Unready:
    """A session in which nothing can start."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    @property
    def readStream(self) -> None:  # noqa: N802
        raise self._error


def begun_with(error: Exception) -> None:
    config = replace(keyed(Path("/nowhere")), tables=(), topics=("a",))
    step_of(config, Unready(error)).start(once=False)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ParseException("[PARSE_SYNTAX_ERROR] near 'SELEC'"), FailureKind.INVALID),
        (AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] `a`"), FailureKind.INVALID),
        (AnalysisException("[UNRESOLVED_COLUMN.WITH_SUGGESTION] `b`"), FailureKind.NOT_FOUND),
        (AnalysisException("[NUM_COLUMNS_MISMATCH] UNION"), FailureKind.OTHER),
        (AnalysisException("[PYTHON_DATA_SOURCE_ERROR] x\nKeyError: 'y'"), FailureKind.OTHER),
        (RuntimeError("SparkException: Python worker failed to connect back."), FailureKind.OTHER),
        (OSError(errno.ENOSPC, "No space left on device"), FailureKind.DISK_FULL),
        (NoBrokerReachable("nobody"), FailureKind.UNREACHABLE),
    ],
)
def test_only_invalid_sql_is_fatal_at_the_start(error: Exception, kind: FailureKind) -> None:
    with pytest.raises(LandingFailure) as caught:
        begun_with(error)
    assert caught.value.kind is kind
    assert caught.value.message.startswith("the query of 'q': ")


def test_a_union_waits_for_columns_only_if_its_query_has_run_before() -> None:
    error = AnalysisException("[NUM_COLUMNS_MISMATCH] UNION")
    assert start_failure(error, has_run=True).kind is FailureKind.NOT_FOUND
    assert start_failure(error).kind is FailureKind.OTHER


def test_state_over_topics_is_not_dropped_automatically(tmp_path: Path) -> None:
    config = keyed(tmp_path)
    kept = Path(config.checkpoint) / "metadata"
    kept.parent.mkdir()
    kept.touch()
    step = step_of(replace(config, topics=("a",)))
    with pytest.raises(LandingFailure, match=f"delete {config.checkpoint}") as found:
        step.reset(FailureKind.STATE_INCOMPATIBLE)
    assert found.value.kind is FailureKind.INVALID
    assert kept.exists()
    step_of(config).reset(FailureKind.STATE_INCOMPATIBLE)
    assert not kept.exists()


@pytest.mark.parametrize("error", [Py4JNetworkError("empty"), ConnectionRefusedError("no")])
def test_a_jvm_that_exited_is_not_a_failure_of_the_query(error: Exception) -> None:
    with pytest.raises(type(error)):
        begun_with(error)


def test_a_checkpoint_keeps_its_id(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    first = make_checkpoint(str(path))
    assert make_checkpoint(str(path)) == first
    (path / "metadata").write_text("{torn")
    (path / "offsets").mkdir()
    second = make_checkpoint(str(path))
    assert second != first
    assert not (path / "offsets").exists()


def test_a_watermark_on_a_missing_column_fails() -> None:
    config = QueryTable("q", "/q", "SELECT", "/c/q", watermark={"timestmp": 60.0})
    with pytest.raises(LandingFailure, match=r"no.* with a column 'timestmp', which 'watermark'"):
        check_watermark(config, {"timestamp", "status"})
    check_watermark(config, {"timestmp"})
