"""SQL that is wrong: told in one line, with the place."""

import pytest

from sawlog.pipeline.landing.configuration.sql_syntax import check_first_word, condense_spark_error

EXPECTED = "expected SELECT, WITH, FROM, TABLE, VALUES or '(', found"


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELEC 1", f"line 1, column 1: {EXPECTED} 'SELEC'; did you mean SELECT?"),
        ("\n  INSERT INTO t SELECT 1", f"line 2, column 3: {EXPECTED} 'INSERT'"),
        ("-- SELECT\n/* WITH\n*/ , SELECT 1", f"line 3, column 4: {EXPECTED} ','"),
        ("-- nothing else", f"line 1, column 16: {EXPECTED} the end"),
        ("'SELECT' 1", f'line 1, column 1: {EXPECTED} "\'"'),
    ],
)
def test_a_word_that_no_query_begins_with_is_told_with_its_place(sql: str, told: str) -> None:
    assert check_first_word(sql) == f"syntax error at {told}"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1", "select 1", "WITH w AS (SELECT 1) TABLE w", "((SELECT 1))", "FROM a SELECT b",
        "FROM a |> WHERE b", "TABLE a", "VALUES 1", "-- x\nSELECT 1", "/* a\nb */SELECT 1",
        "/* a /* b */ c */ SELECT 1",
    ],
)  # fmt: skip
def test_what_a_query_may_begin_with_is_left_to_spark(sql: str) -> None:
    assert check_first_word(sql) is None


SYNTAX = """
[PARSE_SYNTAX_ERROR] Syntax error at or near 'ev': missing 'a'. SQLSTATE: 42601 (line 1, pos 13)

== SQL ==
SELECT * FRM ev
-------------^^^
"""
NO_COLUMN = """\
[UNRESOLVED_COLUMN] There is no `a`. Did you mean `b`? SQLSTATE: 42703; line 2 pos 7;
'Project ['a]
"""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (SYNTAX, "line 1, column 14: at or near 'ev': missing 'a' [PARSE_SYNTAX_ERROR]"),
        (NO_COLUMN, "There is no `a`. Did you mean `b`? (line 2, column 8) [UNRESOLVED_COLUMN]"),
        ("[STREAMING] Not supported. SQLSTATE: 0A000;\nJoin", "Not supported [STREAMING]"),
        ("no condition\nat all", "no condition"),
        ("", ""),
    ],
)
def test_what_spark_says_becomes_one_line_with_the_place(said: str, told: str) -> None:
    assert condense_spark_error(said).removeprefix("syntax error at ") == told
