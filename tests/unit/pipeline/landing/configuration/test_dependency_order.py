"""Queries of a file: their order, checkpoints and watermarks."""

from dataclasses import replace
from pathlib import Path

import pytest

from sawlog.pipeline.landing.configuration.pipeline_config import QueryTable
from sawlog.pipeline.landing.driver.pipeline_runner import dependency_order
from sawlog.pipeline.landing.driver.sql_query import check_watermark, make_checkpoint
from sawlog.pipeline.landing.failures import LandingFailure


def query(name: str, *tables: str) -> QueryTable:
    return QueryTable(name, f"/{name}", "SELECT", f"/c/{name}", tables=tables)


def test_a_query_comes_after_the_queries_it_reads() -> None:
    queries = [query("c", "b"), query("b", "a", "landed"), query("a"), query("d", "a", "c")]
    assert [entry.name for entry in dependency_order(queries)] == ["a", "b", "c", "d"]


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
    config = replace(query("q", "a"), watermark={"timestmp": 60.0})
    with pytest.raises(LandingFailure, match=r"no.* with a column 'timestmp', which 'watermark'"):
        check_watermark(config, {"timestamp", "status"})
    check_watermark(config, {"timestmp"})
