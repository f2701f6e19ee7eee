"""The tables that a query reads, by its SQL alone."""

import pytest

from sawlog.pipeline.landing.configuration.sql_table_names import table_names
from support.pipeline.sql_corpus import QUERIES


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_reads_the_relations_of_its_sql(sql: str) -> None:
    assert table_names(sql) == QUERIES[sql]


@pytest.mark.parametrize(
    "sql",
    ["", "(", ")", "WITH", "WITH x", "WITH x AS", "WITH x AS (", "FROM", "SELECT 'open", "/* open"],
)
def test_sql_that_is_cut_off_names_no_table(sql: str) -> None:
    assert table_names(sql) == set()


def test_a_closing_parenthesis_too_many_does_not_end_the_scan() -> None:
    assert table_names("SELECT ')', x FROM a)), b UNION SELECT * FROM c") == {"a", "c"}


def test_sql_that_is_nested_too_deeply_is_left_to_spark() -> None:
    assert table_names("SELECT * FROM " + "(" * 5_000) == set()
