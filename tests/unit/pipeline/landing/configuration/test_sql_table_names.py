"""The names that a query's SQL has where tables stand."""

import pytest

from sawlog.pipeline.landing.configuration.sql_table_names import table_names


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT * FROM access", {"access"}),
        ("SELECT * FROM `access`", {"access"}),
        ("select * from ACCESS a", {"access"}),
        ("SELECT * FROM a AS x, b y, (c) WHERE x.i IN (1, d)", {"a", "b", "c"}),
        ("SELECT * FROM a LEFT JOIN b ON a.i = f(b.i, c), d", {"a", "b", "d"}),
        ("SELECT * FROM (a JOIN b USING (c))", {"a", "b"}),
        ("SELECT x, c FROM (SELECT y, d FROM a) s, b GROUP BY x, e", {"a", "b"}),
        ("WITH w AS (SELECT * FROM a) SELECT * FROM w WHERE i IN (TABLE b)", {"a", "w", "b"}),
        ("SELECT * FROM f(TABLE(a))", {"f", "a"}),
        ("SELECT * FROM -- not b\n/* FROM c */ a WHERE x = 'it\\'s, FROM d' OR y = \"--\"", {"a"}),
        ("SELECT '--', x FROM a UNION ALL SELECT '/*', x FROM b", {"a", "b"}),
        ("SELECT ')', x FROM a)), b", {"a", "b"}),
        ("FROM a |> WHERE x |> JOIN b", {"a", "b"}),
    ],
)
def test_names_where_tables_stand_are_found(sql: str, tables: set[str]) -> None:
    assert table_names(sql) == tables


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS visits FROM a",
        "SELECT count(*) visits FROM a GROUP BY b HAVING visits > 1 ORDER BY b, visits",
        "SELECT x, visits, sum(visits) FROM (SELECT x, y AS visits FROM a)",
        "SELECT a.visits FROM a JOIN b ON a.visits = b.visits",
        "SELECT * FROM a visits",
        "SELECT 'visits' FROM a WHERE `visits` > 0 AND x IN (1, visits)",
        "SELECT * FROM visits_of_a",
    ],
)
def test_names_of_columns_and_aliases_are_not(sql: str) -> None:
    assert "visits" not in table_names(sql)
