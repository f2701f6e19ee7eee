"""Value columns beside generated partition columns."""

import pyarrow as pa

from sawlog.pipeline.formats import Format, parser
from sawlog.pipeline.formats.landed_rows import table_schema
from sawlog.pipeline.landing.configuration.declared_columns import generated_columns, parser_schema
from support.pipeline.formats import Outcome, outcome_of

MADE = generated_columns(["date(timestamp)", "hour(timestamp) as h", "status"])


def test_only_partitions_by_time_generate_columns() -> None:
    assert {"timestamp_date", "h"} == MADE


def parse(table: pa.Schema, *values: bytes, infer: bool = True) -> Outcome:
    parse_values = parser(Format("json"), parser_schema(table, MADE), infer=infer, generated=MADE)
    return outcome_of(parse_values(pa.array(values, pa.binary())), len(values))


def test_a_field_named_like_a_generated_column_gets_a_prefix() -> None:
    values = (b'{"H": "x", "status": 1, "s": {"h": 2}}', b'{"value_h": "y"}')
    outcome = parse(pa.schema([]), *values)
    assert outcome.rows == [
        {"value_H": "x", "status": 1, "s": {"h": 2}},
        {"value_H": "y", "status": None, "s": None},
    ]
    table = pa.schema([*table_schema(outcome.schema), pa.field("h", pa.string())])
    assert parse(table, *values) == outcome


def test_two_fields_that_belong_to_one_column_are_a_dead_letter() -> None:
    outcome = parse(pa.schema([]), b'{"h": 0}', b'{"h": 1, "Value_H": 2}')
    assert outcome.rows == [{"value_h": 0}]
    assert outcome.bad == {1: "fields 'h' and 'Value_H' both belong to column value_h"}


def test_a_declared_column_beside_a_generated_one_has_the_field_of_its_name() -> None:
    table = table_schema(pa.schema({"value_h": pa.int64()}))
    values = (b'{"h": 1}', b'{"value_h": 2}', b'{"h": 3, "value_h": 4}')
    assert parse(table, *values, infer=False).rows == [{"value_h": n} for n in (1, 2, 4)]


def test_a_prefixed_name_that_is_taken_gets_another_prefix() -> None:
    made = generated_columns(["date(timestamp) as value_timestamp"])
    parse_values = parser(Format("json"), None, infer=True, generated=made)
    outcome = outcome_of(parse_values(pa.array([b'{"timestamp": 1}'], pa.binary())), 1)
    assert outcome.rows == [{"value_value_timestamp": 1}]
