"""Hints: types of some fields of a table whose other columns are inferred."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.pipeline.formats import parser
from sawlog.pipeline.formats.schema_inference import ddl
from sawlog.pipeline.landing.configuration.declared_columns import (
    format_of,
    initial_schema,
    initial_value_schema,
)
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable
from sawlog.pipeline.landing.configuration.pipeline_file import parse_pipeline
from sawlog.pipeline.landing.configuration.yaml_nodes import BadPipelineFile
from support.pipeline.formats import Outcome, outcome_of

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LAST_MS = 253_402_300_799_999
AS_SECONDS = "which as seconds is outside the years 1 to 9999; for milliseconds declare it"


def table_of(lines: str, kind: str = "json") -> LandedTable:
    text = f"brokers: b:1\nlake: ./lake\ntables:\n  t:\n    topic: a\n    format: {kind}\n{lines}"
    (table,) = parse_pipeline("p.yaml", text, {}).landed
    return table


def parse(table: LandedTable, *values: bytes) -> Outcome:
    parse_values = parser(
        format_of(table), initial_value_schema(table), infer=table.schema == "infer"
    )
    return outcome_of(parse_values(pa.array(values, pa.binary())), len(values))


def refusal(lines: str, kind: str = "json") -> str:
    with pytest.raises(BadPipelineFile) as caught:
        table_of(lines, kind)
    return str(caught.value)


def test_hinted_fields_have_their_type_from_the_first_row_on_and_others_are_inferred() -> None:
    table = table_of("    hints: price DOUBLE, at TIMESTAMP\n")
    assert ddl(initial_schema(table)).endswith("key binary, price double, at timestamp")
    outcome = parse(table, b'{"price": 1, "at": "2024-02-29T12:00:00Z", "n": 1}', b'{"at": 60}')
    assert ddl(outcome.schema) == "price double, at timestamp, n bigint"
    noon = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    assert outcome.rows == [
        {"price": 1.0, "at": noon, "n": 1},
        {"price": None, "at": EPOCH + dt.timedelta(seconds=60), "n": None},
    ]


@pytest.mark.parametrize("key", ["hints", "schema"])
@pytest.mark.parametrize(
    ("type_", "value", "unit"),
    [
        ("TIMESTAMP", 1_700_000_000, "seconds"),
        ("TIMESTAMP(SECONDS)", -1, "seconds"),
        ("TIMESTAMP(MILLIS)", 1_700_000_000_123, "milliseconds"),
        ("timestamp(millis)", LAST_MS, "milliseconds"),
    ],
)
def test_numbers_are_epochs_in_the_unit_of_their_column(
    key: str, type_: str, value: int, unit: str
) -> None:
    outcome = parse(table_of(f"    {key}: at {type_}\n"), f'{{"at": {value}}}'.encode())
    assert outcome.rows == [{"at": EPOCH + dt.timedelta(**{unit: value})}]


@given(st.lists(st.integers(-(10**18), 10**18) | st.sampled_from([LAST_MS, LAST_MS + 1])))
def test_milliseconds_are_exact_or_dead_letters(numbers: list[int]) -> None:
    values = [f'{{"at": {number}}}'.encode() for number in numbers]
    outcome = parse(table_of("    hints: at TIMESTAMP(MILLIS)\n"), *values)
    fits = {
        place: number
        for place, number in enumerate(numbers)
        if -62_135_596_800_000 <= number <= LAST_MS
    }
    assert [row["at"] for row in outcome.rows] == [
        EPOCH + dt.timedelta(milliseconds=number) for number in fits.values()
    ]
    assert set(outcome.bad) == set(range(len(numbers))) - set(fits)


def test_iso_strings_fit_a_column_of_milliseconds_too() -> None:
    outcome = parse(
        table_of("    hints: at TIMESTAMP(MILLIS)\n"),
        b'{"at": "1970-01-01T00:00:01Z"}',
        b'{"at": 5}',
    )
    assert [row["at"].timestamp() for row in outcome.rows] == [1.0, 0.005]


@pytest.mark.parametrize(
    ("hints", "value", "found"),
    [
        ("s STRUCT<at: TIMESTAMP(MILLIS), b: TIMESTAMP>", '{"at": 5, "b": 5}',
         {"at": EPOCH + dt.timedelta(milliseconds=5), "b": EPOCH + dt.timedelta(seconds=5)}),
        ("s ARRAY<TIMESTAMP(MILLIS)>", "[5]", [EPOCH + dt.timedelta(milliseconds=5)]),
        ("s MAP<STRING, TIMESTAMP(MILLIS)>", '{"a": 5}',
         [("a", EPOCH + dt.timedelta(milliseconds=5))]),
    ],
)  # fmt: skip
def test_a_unit_counts_where_it_is_declared_also_inside(
    hints: str, value: str, found: object
) -> None:
    outcome = parse(table_of(f"    hints: '{hints}'\n"), f'{{"s": {value}}}'.encode())
    assert outcome.rows == [{"s": found}]


def test_the_unit_of_a_field_named_like_a_record_column_counts() -> None:
    table = table_of("    hints: timestamp TIMESTAMP(MILLIS), headers TIMESTAMP(MILLIS)\n"
                     "    columns: {headers: map}\n")  # fmt: skip
    outcome = parse(table, b'{"value_timestamp": 5, "value_headers": 7}')
    assert [value.microsecond for value in outcome.rows[0].values()] == [5_000, 7_000]


def test_a_number_that_cannot_be_seconds_names_the_other_unit() -> None:
    outcome = parse(table_of("    hints: at TIMESTAMP\n"), b'{"at": 1700000000000}')
    assert outcome.bad == {
        0: f"field at: expected timestamp, found 1700000000000, {AS_SECONDS} TIMESTAMP(MILLIS)"
    }


@pytest.mark.parametrize(
    ("lines", "kind", "told"),
    [
        ("    hints: a INTT\n", "json", "7: the hints of 't': schema 'a INTT': no such type"),
        ("    hints: a INT\n", "raw", "7: hints: they are for format: json with schema: inf"),
        ("    schema: b INT\n    hints: a INT\n", "json", "p.yaml:8: hints: they are for format"),
        ("    hints: a TIMESTAMP(MICROS)\n", "json", "expected TIMESTAMP(SECONDS) or TIMESTAMP(MI"),
        ("    schema: a TIMESTAMP(MILLIS)\n", "csv", "TIMESTAMP(MILLIS) is for numbers in json"),
        ("    partition_by: [date(at), shop]\n", "json",
         "give the type of an inferred one: hints: at TIMESTAMP, shop STRING"),
        ("    hints: at STRING\n    partition_by: date(at)\n", "json", "date() needs a time"),
    ],
)  # fmt: skip
def test_wrong_hints_are_refused(lines: str, kind: str, told: str) -> None:
    assert told in refusal(lines, kind)


def test_hinted_fields_may_be_partition_columns() -> None:
    made: Any = table_of(
        "    hints: at TIMESTAMP, shop STRING\n    partition_by: [date(at), shop]\n"
    )
    assert made.partition_by == ("date(at)", "shop")
