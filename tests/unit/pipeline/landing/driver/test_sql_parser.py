"""Spark's messages about SQL, in one line with the position."""

import pytest

from sawlog.pipeline.landing.driver.sql_parser import condense_spark_error

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
    ("message", "condensed"),
    [
        (SYNTAX, "line 1, column 14: at or near 'ev': missing 'a' [PARSE_SYNTAX_ERROR]"),
        (NO_COLUMN, "There is no `a`. Did you mean `b`? (line 2, column 8) [UNRESOLVED_COLUMN]"),
        ("[STREAMING] Not supported. SQLSTATE: 0A000;\nJoin", "Not supported [STREAMING]"),
        ("no condition\nat all", "no condition"),
        ("", ""),
    ],
)
def test_an_error_becomes_one_line_with_its_position(message: str, condensed: str) -> None:
    assert condense_spark_error(message).removeprefix("syntax error at ") == condensed
