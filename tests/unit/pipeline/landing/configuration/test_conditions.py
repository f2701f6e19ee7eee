"""Conditions of `delete_when`: their syntax, their types, and SQL's answers for nulls."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from sawlog.pipeline.landing.configuration.conditions import Condition, InvalidCondition

ROWS = pa.RecordBatch.from_pylist(
    [
        {"op": "d", "n": 1, "s": {"t": "x"}, "f": True, "at": datetime(2026, 1, 1, tzinfo=UTC)},
        {"op": "u", "n": None, "s": None, "f": False, "at": None},
        {"op": None, "n": 5, "s": {"t": None}, "f": None, "at": datetime(2026, 3, 1, tzinfo=UTC)},
    ]
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("op = 'd'", [0]),
        ("OP == 'd'", [0]),
        ("op <> 'd'", [1]),
        ("op != 'it''s'", [0, 1]),
        ("n > 1.5", [2]),
        ("1 <= n", [0, 2]),
        ("n IN (1, 7) OR n in (5)", [0, 2]),
        ("n NOT IN (1, 2)", [2]),
        ("NOT n = 1", [2]),
        ("n IS NULL", [1]),
        ("n is not null AND f", [0]),
        ("f", [0]),
        ("NOT f", [1]),
        ("s.t = 'x' or `s`.`t` is null", [0, 1, 2]),
        ("at >= '2026-02-01T00:00:00Z'", [2]),
        ("(f OR n = 5) AND NOT (op = 'd')", []),
        ("op = NULL OR f", [0]),
        ("missing = 3", []),
        ("s.missing IS NULL", [0, 1, 2]),
        ("TRUE", [0, 1, 2]),
    ],
)
def test_a_condition_holds_where_sql_says_so(text: str, rows: list[int]) -> None:
    held = Condition(text).holds(ROWS).to_pylist()
    assert [number for number, holds in enumerate(held) if holds] == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("op =", "expected a column or a value and found the end at character 5"),
        ("op = 'd' op", "expected AND, OR or the end and found 'op' at character 10"),
        ("(op = 'd'", "expected ')' and found the end at character 10"),
        ("op = 'd", 'unexpected "\'" at character 6'),
        ("n = $1", "unexpected '$' at character 5"),
        ("and f", "expected a column or a value and found 'and' at character 1"),
        ("n in 1", "expected '(' and found '1' at character 6"),
        ("", "expected a column or a value and found the end at character 1"),
    ],
)
def test_a_syntax_error_has_its_position(text: str, message: str) -> None:
    with pytest.raises(InvalidCondition) as error:
        Condition(text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("op = 3", "'op = 3' compares string with bigint"),
        ("op", "'op': expected a condition, found string"),
        ("n and f", "'n and f': expected a condition, found bigint"),
        ("at > 'soon'", "\"at > 'soon'\" compares timestamp with string"),
        ("s = 'x'", "compares struct<t:string> with string"),
    ],
)
def test_types_that_do_not_fit_are_named(text: str, message: str) -> None:
    with pytest.raises(InvalidCondition) as error:
        Condition(text).holds(ROWS)
    assert message in str(error.value)
