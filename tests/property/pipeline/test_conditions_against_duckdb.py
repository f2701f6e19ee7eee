"""Conditions of `delete_when` are true for the same rows as in DuckDB."""

from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.pipeline.landing.configuration.conditions import Condition

ROWS = pa.table(
    {
        "a": pa.array([None, -1, 0, 1, 2, 2], pa.int64()),
        "b": pa.array([0.5, None, 0.0, 1.0, 2.0, -1.5], pa.float64()),
        "s": pa.array(["", "x", None, "y", "x", "it's"]),
        "f": pa.array([True, None, False, True, False, None]),
    }
)
NUMBERS = st.sampled_from(["a", "b", "0", "-1", "2", "0.5", "NULL"])
TEXTS = st.sampled_from(["s", "''", "'x'", "'it''s'", "NULL"])
COMPARISONS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])


def listed(operand: st.SearchStrategy[str], column: st.SearchStrategy[str]) -> Any:
    values = st.lists(operand, min_size=1, max_size=3).map(", ".join)
    words = st.sampled_from(["IN", "NOT IN", "in"])
    return st.builds(lambda left, word, right: f"{left} {word} ({right})", column, words, values)


def simple() -> Any:
    compared = [
        st.builds(lambda left, how, right: f"{left} {how} {right}", operand, COMPARISONS, operand)
        for operand in (NUMBERS, TEXTS)
    ]
    null = st.builds(
        lambda column, words: f"{column} {words}",
        st.sampled_from(["a", "b", "s", "f"]),
        st.sampled_from(["IS NULL", "is not null"]),
    )
    lists = [listed(NUMBERS, st.sampled_from(["a", "b"])), listed(TEXTS, st.just("s"))]
    return st.one_of(*compared, null, *lists, st.sampled_from(["f", "TRUE", "FALSE", "f = TRUE"]))


CONDITIONS = st.recursive(
    simple(),
    lambda inner: st.one_of(
        st.builds(lambda condition: f"NOT ({condition})", inner),
        st.builds(
            lambda left, word, right: f"({left}) {word} {right}",
            inner,
            st.sampled_from(["AND", "OR"]),
            inner,
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(text=CONDITIONS)
def test_a_condition_holds_for_the_rows_of_duckdb(text: str) -> None:
    rows = ROWS  # noqa: F841
    expected = duckdb.sql(f"SELECT coalesce(({text}), false) FROM rows").fetchall()
    (batch,) = ROWS.to_batches()
    assert Condition(text).holds(batch).to_pylist() == [row[0] for row in expected], text
