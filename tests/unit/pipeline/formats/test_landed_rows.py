"""The rows of tables: record columns, value columns, and dead letters."""

import datetime as dt

import pyarrow as pa
import pytest

from sawlog.pipeline.formats import BadRow, Format, FormatError, Parsed, parser
from sawlog.pipeline.formats.landed_rows import (
    DEAD,
    HEADERS,
    RECORD,
    assemble,
    dead_rows,
    microseconds,
    table_schema,
    value_schema,
)
from sawlog.pipeline.formats.schema_inference import ddl, from_ddl
from support.pipeline.formats import parse

OWN = "topic string, partition int, offset bigint, timestamp timestamp, key binary"
MILLISECONDS = pa.timestamp("ms", "UTC")


def chunk(*values: bytes | None) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "offset": pa.array(range(10, 10 + count), pa.int64()),
            "timestamp": pa.array(range(count), MILLISECONDS),
            "key": pa.array([b"k%d" % number for number in range(count)], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array([[{"key": "h", "value": b"v"}]] * count, HEADERS),
        }
    )


def test_good_records_have_record_columns_and_bad_ones_everything() -> None:
    records = chunk(b'{"a": 1}', b"broken", b'{"a": 2}')
    (parsed,) = parser(Format("json"), None, infer=True)(records.column("value"))
    when = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    rows = assemble("logs", 3, records, parsed)
    assert rows.schema == table_schema(from_ddl("a bigint"))
    assert rows.to_pylist() == [
        {
            "topic": "logs",
            "partition": 3,
            "offset": 10 + number,
            "timestamp": when + dt.timedelta(milliseconds=number),
            "key": b"k%d" % number,
            "a": a,
        }
        for number, a in ((0, 1), (2, 2))
    ]
    letters = dead_rows("logs", 3, records, parsed)
    assert letters.schema == DEAD
    assert letters.to_pylist() == [
        {
            "topic": "logs",
            "partition": 3,
            "offset": 11,
            "timestamp": when + dt.timedelta(milliseconds=1),
            "key": b"k1",
            "value": b"broken",
            "headers": [{"key": "h", "value": b"v"}],
            "error": "not JSON: unexpected character, at byte 0",
        }
    ]


def test_columns_that_were_not_read_are_null() -> None:
    records = chunk(b"{}", b"x").select(["offset", "timestamp", "value"])
    (parsed,) = parser(Format("json"), None, infer=True)(records.column("value"))
    assert assemble("logs", 0, records, parsed).column("key").null_count == 1
    letters = dead_rows("logs", 0, records, parsed).to_pylist()
    assert (letters[0]["key"], letters[0]["headers"], letters[0]["value"]) == (None, None, b"x")


def test_no_bad_rows_make_no_dead_letters() -> None:
    parsed = Parsed(pa.RecordBatch.from_pydict({"a": [1]}), None, [])
    assert dead_rows("logs", 0, chunk(b"{}"), parsed).num_rows == 0
    everything = Parsed(pa.RecordBatch.from_pydict({"a": []}), pa.array([], pa.int64()), [
        BadRow(0, "x")
    ])  # fmt: skip
    assert assemble("logs", 0, chunk(b"{}"), everything).num_rows == 0


def test_the_value_columns_of_a_table_schema_are_those_of_its_parser() -> None:
    table = table_schema(from_ddl("timestamp string, `a b` int, c date"))
    assert ddl(table) == f"{OWN}, value_timestamp string, a_b int, c date"
    assert ddl(value_schema(table)) == "value_timestamp string, a_b int, c date"
    partitioned = pa.schema([*table, pa.field("day", pa.date32())])
    assert value_schema(partitioned, ("day",)) == value_schema(table)
    assert len(RECORD) == 5


@pytest.mark.parametrize(
    ("milliseconds", "year"), [(0, 1970), (-1, 1969), (2**63 - 1, 9999), (-(2**63), 1)]
)
def test_record_times_out_of_range_are_clamped(milliseconds: int, year: int) -> None:
    times = microseconds(pa.array([milliseconds, None], pa.int64()).cast(MILLISECONDS))
    assert times.type == pa.timestamp("us", "UTC")
    assert times[0].as_py().year == year
    assert times[1].as_py() is None


def test_raw_values_are_kept_as_they_are() -> None:
    outcome = parse("raw", b"\xff", None, b"")
    assert outcome.rows == [{"value": b"\xff"}, {"value": None}, {"value": b""}]
    assert outcome.bad == {}


def test_an_unknown_option_of_a_format_is_rejected() -> None:
    for kind in ("raw", "json"):
        with pytest.raises(FormatError, match=f"format {kind} has no option 'header'"):
            parse(kind, header="no")
    with pytest.raises(FormatError, match="json needs a schema, or `infer`"):
        parse("json", infer=False)
