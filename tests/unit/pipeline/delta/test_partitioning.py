"""The partition of a row."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from sawlog.pipeline.delta.delta_types import TIMESTAMP
from sawlog.pipeline.delta.errors import InvalidColumn
from sawlog.pipeline.delta.partitioning import (
    PartitionBy,
    add_partition_columns,
    is_lost,
    parse,
    partition_directory,
    path_has_values,
    split_by_partition,
)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("country", PartitionBy("country", "country", None)),
        ("date(timestamp)", PartitionBy("timestamp_date", "timestamp", "date")),
        (" Hour ( at ) AS slot ", PartitionBy("slot", "at", "hour")),
        ("month(user time)", PartitionBy("user time_month", "user time", "month")),
    ],
)
def test_expressions_and_their_columns(text: str, entry: PartitionBy) -> None:
    assert parse(text) == entry
    assert parse(str(entry)) == entry


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dates(timestamp)", "did you mean date"),
        ("year(timestamp)", "date, hour or month of a column, not year"),
        ("date(timestamp", "is no partition"),
        ("", "is no partition"),
        ("country as c", "a plain column keeps its name"),
    ],
)
def test_an_invalid_expression_is_rejected(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(text)


def test_columns_that_cannot_be_partitions_are_rejected() -> None:
    kinds = {"t": TIMESTAMP, "b": pa.binary(), "t_date": pa.string()}
    schema = pa.schema([pa.field(name, kind) for name, kind in kinds.items()])
    for text, said in [
        ("x", "no column 'x'"),
        ("b", "no partitions by that"),
        ("date(b)", "needs a time"),
        ("date(t)", "name it, date"),
    ]:
        with pytest.raises(InvalidColumn, match=said):
            add_partition_columns(schema, [parse(text)])
    assert add_partition_columns(schema, [parse("hour(t)")]).field("t_hour").type == pa.string()
    assert add_partition_columns(schema, [parse("date(t) as d")]).field("d").type == pa.date32()


def parts(batch: pa.RecordBatch, *expressions: str) -> dict[tuple[str | None, ...], list[object]]:
    found = {}
    for values, rows in split_by_partition(batch, [parse(text) for text in expressions]):
        assert values not in found, "a partition comes once"
        found[values] = rows.column("n").to_pylist()
    return found


def test_rows_go_to_the_partition_of_their_time_in_their_order() -> None:
    times = [
        datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 2, 1, 0, 0, tzinfo=UTC),
        datetime(1969, 12, 31, 12, 30, tzinfo=UTC),
        None,
        datetime(2026, 1, 31, 1, 0, tzinfo=UTC),
    ]
    batch = pa.RecordBatch.from_pydict({"t": pa.array(times, TIMESTAMP), "n": range(5)})
    assert parts(batch, "date(t)") == {
        ("2026-01-31",): [0, 4], ("2026-02-01",): [1], ("1969-12-31",): [2], (None,): [3],
    }  # fmt: skip
    assert parts(batch, "hour(t)") == {
        ("2026-01-31-23",): [0], ("2026-02-01-00",): [1], ("1969-12-31-12",): [2], (None,): [3],
        ("2026-01-31-01",): [4],
    }  # fmt: skip
    assert parts(batch, "month(t)")[("2026-01",)] == [0, 4]


def test_partitions_by_several_columns_are_all_combinations_that_occur() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "a": pa.array(["x", "y", "x", None, "x"]),
            "b": pa.array([1, 1, 2, 2, 1], pa.int64()),
            "n": range(5),
        }
    )
    assert parts(batch, "a", "b") == {
        ("x", "1"): [0, 4], ("y", "1"): [1], ("x", "2"): [2], (None, "2"): [3],
    }  # fmt: skip
    ((_, rows), *_) = split_by_partition(batch, [parse("a"), parse("b")])
    assert rows.to_pylist() == [{"a": "x", "b": 1, "n": 0}, {"a": "x", "b": 1, "n": 4}]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([True, None]), ["true", None]),
        (pa.array(["", "a"]), [None, "a"]),
        (pa.array([1.5, -2.0]), ["1.5", "-2"]),
        (pa.array([3_600_000_001], TIMESTAMP), ["1970-01-01 01:00:00.000001"]),
        (pa.array([-1], pa.date32()), ["1969-12-31"]),
        (pa.array(["k", "k"]).dictionary_encode(), ["k"]),
    ],
)  # fmt: skip
def test_partition_values_have_the_format_of_delta(
    values: pa.Array, texts: list[str | None]
) -> None:
    batch = pa.RecordBatch.from_arrays([values, pa.array(range(len(values)))], ["a", "n"])
    assert [key for (key,) in parts(batch, "a")] == texts


def test_a_time_out_of_range_has_a_null_partition() -> None:
    """A producer may send any 64-bit timestamp."""
    times = pa.array([2**63 - 1, -(2**63) + 1, 0], TIMESTAMP)
    batch = pa.RecordBatch.from_pydict({"t": times, "n": range(3)})
    for unit in ("date", "hour", "month"):
        found = parts(batch, f"{unit}(t)")
        assert found[(None,)] == [0, 1]


def test_an_empty_batch_has_no_partitions() -> None:
    batch = pa.RecordBatch.from_pydict({"t": pa.array([], TIMESTAMP), "n": pa.array([])})
    assert parts(batch, "date(t)") == {}


def test_directories_stay_inside_the_table_and_are_never_too_long() -> None:
    names = ["a", "b=c"]
    evil = partition_directory(names, ("../../etc", "x/y z%"))
    assert evil == "a=..%2F..%2Fetc/b%3Dc=x%2Fy%20z%25"
    assert partition_directory(names, (None, "ü")) == "a=__HIVE_DEFAULT_PARTITION__/b%3Dc=ü"
    assert all(
        len(part.encode()) < 255
        for part in partition_directory(names, ("aü" * 999, None)).split("/")
    )


def test_a_directory_has_its_value_unless_it_was_cut() -> None:
    short, long = {"a": "x y"}, {"a": "x" * 300}
    assert path_has_values(["a"], short, "a=x%20y/f.parquet")
    assert path_has_values([], {}, "f.parquet")
    assert path_has_values(["a"], {"a": None}, "a=__HIVE_DEFAULT_PARTITION__/f.parquet")
    assert not path_has_values(["a"], short, "elsewhere/f.parquet")
    assert not path_has_values(["a"], long, f"{partition_directory(['a'], ('x' * 300,))}/f.parquet")


def test_a_directory_of_ascii_letters_escapes_all_others() -> None:
    assert partition_directory(["a"], ("ü b",)) == "a=ü%20b"
    assert partition_directory(["a"], ("ü b",), ascii_only=True) == "a=%C3%BC%20b"


def test_values_that_a_partition_cannot_have_are_those_that_it_has_null_for() -> None:
    times = [datetime(1, 1, 1, tzinfo=UTC), datetime(5, 1, 1, tzinfo=UTC),
             datetime(9999, 12, 31, 23, tzinfo=UTC), None]  # fmt: skip
    columns = {
        "text": pa.array(["", "null", " ", None]),
        "at": pa.array(times, TIMESTAMP),
        "number": pa.array([0.0, float("nan"), -0.0, None]),
        "flag": pa.array([True, False, None, None]),
    }
    for name, column in columns.items():
        batch = pa.RecordBatch.from_pydict({name: column})
        parts = list(split_by_partition(batch, [parse(name)]))
        stored = pa.concat_arrays([part.column(name) for _, part in parts])
        lost = sum(is_lost(column).to_pylist())
        assert stored.null_count == column.null_count + lost, name
    assert is_lost(columns["text"]).to_pylist() == [True, False, False, False]
    assert is_lost(columns["at"]).to_pylist() == [True, False, True, False]
