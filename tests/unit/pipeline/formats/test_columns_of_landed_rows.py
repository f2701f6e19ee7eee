"""New columns and their types come from rows that land, and from no others."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.pipeline.formats import Format, parser
from sawlog.pipeline.formats.schema_inference import ddl, from_ddl
from support.pipeline.formats import Outcome, outcome_of

KNOWN = from_ddl("a bigint, s struct<b: bigint>, l array<bigint>")


def parsed(*rows: Any, known: pa.Schema = KNOWN, hinted: tuple[str, ...] = ()) -> Outcome:
    values = [json.dumps(row).encode() for row in rows]
    parse_values = parser(Format("json", hinted_bigints=hinted), known, infer=True)
    return outcome_of(parse_values(pa.array(values, pa.binary())), len(rows))


def widen(*rows: Any, hinted: tuple[str, ...] = ()) -> set[str]:
    values = pa.array([json.dumps(row).encode() for row in rows], pa.binary())
    parse_values = parser(Format("json", hinted_bigints=hinted), KNOWN, infer=True)
    return {path for part in parse_values(values) for path in part.widen}


def new_columns(outcome: Outcome) -> str:
    return ddl(pa.schema([part for part in outcome.schema if part.name not in KNOWN.names]))


def test_a_row_that_does_not_land_adds_no_column() -> None:
    outcome = parsed({"a": 1}, {"a": "x", "new": 1, "other": {"c": 1}})
    assert set(outcome.bad) == {1}
    assert outcome.schema == KNOWN
    assert outcome.rows == [{"a": 1, "s": None, "l": None}]


def test_a_row_that_does_not_land_adds_no_field_to_a_struct() -> None:
    outcome = parsed({"s": {"b": 1}, "n": 1}, {"a": "x", "s": {"c": 1}})
    assert outcome.schema.field("s").type == KNOWN.field("s").type


def test_a_row_that_does_not_land_does_not_change_the_type_of_another() -> None:
    outcome = parsed({"n": 1}, {"n": 2**53 + 1}, {"a": "x", "n": 1.5}, {"a": [], "n": "text"})
    assert new_columns(outcome) == "n bigint"
    assert [row["n"] for row in outcome.rows] == [1, 2**53 + 1]
    assert set(outcome.bad) == {2, 3}


def test_a_row_that_does_not_fit_an_inferred_type_adds_no_column() -> None:
    outcome = parsed({"n": 1.5}, {"n": 2**53 + 1, "new": "x"})
    assert new_columns(outcome) == "n double"
    assert "which a double does not hold exactly" in outcome.bad[1]


def test_malformed_values_keep_their_reasons_when_others_are_parsed_again() -> None:
    values = [b'{"n": 1}', b"broken", b'{"a": "x"}', None, b'{"n": 2}']
    outcome = outcome_of(parser(Format("json"), KNOWN, infer=True)(pa.array(values)), 5)
    assert [row["n"] for row in outcome.rows] == [1, 2]
    assert outcome.bad == {
        1: "not JSON: unexpected character, at byte 0",
        2: 'field a: expected bigint, found the string "x"',
        3: "no value",
    }


numbers = st.integers(-3, 3) | st.sampled_from(
    [0.5, 2**53 + 1, 10**40, "x", True, None, [1], {"c": 1}]
)
objects = st.lists(st.dictionaries(st.sampled_from("abcde"), numbers, max_size=4), max_size=12)


@settings(deadline=None)
@given(objects)
def test_the_rows_that_land_alone_give_the_same_columns(rows: list[dict[str, Any]]) -> None:
    outcome = parsed(*rows)
    landed = [row for place, row in enumerate(rows) if place not in outcome.bad]
    alone = parsed(*landed)
    assert alone.bad == {}
    assert alone.rows == [
        {name: value for name, value in row.items() if name in alone.schema.names}
        for row in outcome.rows
    ]
    assert {str(field) for field in alone.schema} == {str(field) for field in outcome.schema}


@pytest.mark.parametrize(
    ("row", "paths"),
    [
        ({"a": 1.5}, {"a"}),
        ({"a": 1e2}, {"a"}),
        ({"s": {"b": 0.5}}, {"s.b"}),
        ({"l": [1, 0.5]}, {"l[]"}),
        ({"a": 1.5, "l": ["x"]}, set()),
        ({"a": "1.5"}, set()),
        ({"a": 2**64}, set()),
    ],
)
def test_a_fraction_in_a_bigint_column_asks_for_a_double(row: Any, paths: set[str]) -> None:
    assert widen({"a": 1}, row) == paths
    outcome = parsed({"a": 1}, row)
    assert len(outcome.rows) == 1
    if paths:
        (path,) = paths
        assert outcome.bad[1].startswith(f"field {path}: expected bigint, found ")
        assert outcome.bad[1].endswith("DECIMAL(38,9)")


@pytest.mark.parametrize("number", [b"1e400", b"1e-400"])
def test_a_number_that_no_double_holds_asks_for_none(number: bytes) -> None:
    values = pa.array([b'{"a": %s}' % number])
    (part,) = parser(Format("json"), KNOWN, infer=True)(values)
    assert not part.widen
    assert len(part.bad) == 1


def test_a_hinted_bigint_stays() -> None:
    assert widen({"a": 1.5}, {"s": {"b": 1.5}}, hinted=("a",)) == {"s.b"}
    outcome = parsed({"a": 1.5}, hinted=("a",))
    assert outcome.bad == {0: "field a: expected bigint, found 1.5"}
