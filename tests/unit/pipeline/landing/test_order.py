"""Queries of a file run behind those that they read; a checkpoint keeps its id."""

from pathlib import Path

from sawlog.pipeline.landing.config import QueryTable
from sawlog.pipeline.landing.query_step import make_checkpoint
from sawlog.pipeline.landing.whole import in_order


def query(name: str, *tables: str) -> QueryTable:
    return QueryTable(name, f"/{name}", "SELECT", f"/c/{name}", tables=tables)


def test_a_query_comes_behind_what_it_reads() -> None:
    queries = [query("c", "b"), query("b", "a", "landed"), query("a"), query("d", "a", "c")]
    assert [entry.name for entry in in_order(queries)] == ["a", "b", "c", "d"]


def test_a_checkpoint_has_one_id_for_as_long_as_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    first = make_checkpoint(str(path))
    assert make_checkpoint(str(path)) == first
    (path / "metadata").write_text("{torn")
    (path / "offsets").mkdir()
    second = make_checkpoint(str(path))
    assert second != first
    assert not (path / "offsets").exists()
