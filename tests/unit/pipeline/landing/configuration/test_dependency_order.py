"""Queries of a file run after those that they read."""

from sawlog.pipeline.landing.configuration.pipeline_config import QueryTable, dependency_order


def query(name: str, *tables: str) -> QueryTable:
    return QueryTable(name, f"/{name}", "SELECT", f"/c/{name}", tables=tables)


def test_a_query_comes_after_the_queries_it_reads() -> None:
    queries = [query("c", "b"), query("b", "a", "landed"), query("a"), query("d", "a", "c")]
    assert [entry.name for entry in dependency_order(queries)] == ["a", "b", "c", "d"]
