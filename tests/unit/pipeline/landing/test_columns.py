"""Columns of values beside those that partitions make."""

import pyarrow as pa

from sawlog.pipeline.landing.columns import known_to_parser, made_columns, named_for_table

MADE = made_columns(["date(timestamp)", "hour(timestamp) as h", "status"])


def test_only_partitions_of_times_make_columns() -> None:
    assert {"timestamp_date", "h"} == MADE


def test_a_field_named_as_a_made_column_is_moved_aside_and_known_again() -> None:
    rows = pa.RecordBatch.from_pydict({"H": ["x"], "status": [1]})
    named = named_for_table(rows, MADE)
    assert named.schema.names == ["value_H", "status"]
    record = pa.schema({"topic": pa.string(), "offset": pa.int64(), "h": pa.string()})
    table = pa.schema([*record, *named.schema])
    assert known_to_parser(table, MADE).names == ["H", "status"]
