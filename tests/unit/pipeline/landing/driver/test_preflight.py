"""The check of a query before a run."""

from sawlog.pipeline.landing.configuration.pipeline_config import QueryTable
from sawlog.pipeline.landing.driver.preflight import check_query
from sawlog.pipeline.landing.failures import FailureKind


def query(*tables: str, topics: tuple[str, ...] = ()) -> QueryTable:
    return QueryTable("q", "/lake/q", "SELECT 1", "/lake/_c/q", tables=tables, topics=topics)


def valid(sql: str) -> None:
    return None


def test_a_query_is_described_by_what_it_reads() -> None:
    result = check_query(query("a", "b", topics=("t",)), ["a", "b", "q"], valid)
    assert result == ("a query over a, b, t; the syntax of its SQL is valid", None)


def test_a_syntax_error_is_reported_first() -> None:
    result = check_query(query(), ["a", "q"], lambda sql: f"syntax error in {sql}")
    assert result == ("sql: syntax error in SELECT 1", FailureKind.INVALID)


def test_a_query_that_reads_nothing_of_the_file_is_invalid() -> None:
    result = check_query(query(), ["a", "b", "q"], valid)
    assert result.problem is FailureKind.INVALID
    assert "none of the file's other tables (a, b)" in result.text
