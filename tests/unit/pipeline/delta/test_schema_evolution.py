"""Columns of files against columns of a table."""

import pyarrow as pa
import pytest

from sawlog.pipeline.delta.delta_types import TIMESTAMP
from sawlog.pipeline.delta.errors import SchemaMismatch
from sawlog.pipeline.delta.schema_evolution import conform, evolved_schema, missing_columns


def schema(**fields: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in fields.items()])


def struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])


def test_new_columns_come_last_and_known_ones_stay_where_they_are() -> None:
    now = schema(a=pa.int64(), b=pa.string())
    found = schema(c=pa.float64(), b=pa.string())
    assert evolved_schema(now, found).equals(schema(a=pa.int64(), b=pa.string(), c=pa.float64()))


def test_structs_grow_wherever_they_are() -> None:
    now = schema(s=struct(x=pa.int64()), l=pa.list_(pa.field("element", struct(x=pa.int64()))))
    found = schema(s=struct(y=pa.int64()), l=pa.list_(pa.field("element", struct(y=pa.int64()))))
    both = struct(x=pa.int64(), y=pa.int64())
    assert evolved_schema(now, found).equals(schema(s=both, l=pa.list_(pa.field("element", both))))


@pytest.mark.parametrize(
    ("now", "found", "named"),
    [
        (
            schema(a=pa.int64()),
            schema(a=pa.string()),
            "'a' is of type bigint in the table and string in",
        ),
        (
            schema(a=pa.int32()),
            schema(a=pa.int64()),
            "'a' is of type int in the table and bigint in",
        ),
        (schema(s=struct(x=pa.int64())), schema(s=struct(x=pa.bool_())), r"'s\.x' is of type"),
        (schema(a=pa.int64()), schema(A=pa.int64()), "'A' differs from 'a' only in case"),
        (schema(s=struct(x=pa.int64())), schema(s=struct(X=pa.int64())), r"'s\.X' differs"),
    ],
)
def test_a_column_that_does_not_fit_is_named(now: pa.Schema, found: pa.Schema, named: str) -> None:
    with pytest.raises(SchemaMismatch, match=named):
        evolved_schema(now, found)


def test_missing_columns_are_named_by_their_path() -> None:
    inner = struct(x=pa.int64())
    listed = pa.list_(pa.field("element", inner))
    known = schema(a=pa.int64(), s=inner, l=listed, m=pa.map_(pa.string(), inner))
    wide = struct(x=pa.int64(), y=pa.string())
    found = schema(
        a=pa.float64(), s=wide, l=pa.list_(pa.field("element", wide)),
        m=pa.map_(pa.string(), wide), b=pa.bool_(),
    )  # fmt: skip
    assert missing_columns(known, found) == ["a", "s.y", "l.element.y", "m.value.y", "b"]
    assert missing_columns(known, known) == missing_columns(known, schema(s=inner)) == []


def test_a_batch_gets_nulls_for_missing_columns() -> None:
    batch = pa.RecordBatch.from_pydict({"b": ["x"], "dropped": [1]})
    wide = schema(a=pa.int64(), b=pa.string())
    assert conform(batch, wide).to_pylist() == [{"a": None, "b": "x"}]


def test_nested_rows_conform_with_their_nulls() -> None:
    small = pa.list_(pa.field("element", struct(x=pa.int64())))
    wide = pa.list_(pa.field("element", struct(y=pa.string(), x=pa.int64())))
    lists = pa.array([[{"x": 1}], None, [], [None, {"x": None}, {"x": 3}]], small)
    batch = pa.RecordBatch.from_arrays([lists], ["l"])
    expected = [
        [{"y": None, "x": 1}], None, [], [None, {"y": None, "x": None}, {"y": None, "x": 3}],
    ]  # fmt: skip
    target = schema(l=wide)
    assert conform(batch, target).column("l").to_pylist() == expected
    for start in range(5):
        for end in range(start, 5):
            part = batch.slice(start, end - start)
            found = conform(part, target)
            found.validate(full=True)
            assert found.column("l").to_pylist() == expected[start:end]


def test_structs_conform_with_their_nulls_also_when_sliced() -> None:
    small = pa.array([{"x": 1}, None, {"x": None}, {"x": 4}], struct(x=pa.int64()))
    batch = pa.RecordBatch.from_arrays([small], ["s"])
    target = schema(s=struct(x=pa.int64(), y=pa.string()))
    expected = [{"x": 1, "y": None}, None, {"x": None, "y": None}, {"x": 4, "y": None}]
    for start in range(4):
        found = conform(batch.slice(start), target)
        found.validate(full=True)
        assert found.column("s").to_pylist() == expected[start:]


def test_times_out_of_range_are_clamped() -> None:
    most = 2**63 - 1
    times = pa.array([most, -most, 5, None], pa.timestamp("ms", tz="UTC"))
    batch = pa.RecordBatch.from_arrays([times], ["t"])
    found = conform(batch, schema(t=TIMESTAMP)).column("t").cast(pa.int64()).to_pylist()
    bound = most // 1000 * 1000
    assert found == [bound, -bound, 5000, None]


def test_nanoseconds_are_truncated() -> None:
    times = pa.array([1999, None], pa.timestamp("ns"))
    batch = pa.RecordBatch.from_arrays([times], ["t"])
    assert conform(batch, schema(t=TIMESTAMP)).column("t").cast(pa.int64()).to_pylist() == [
        1,
        None,
    ]
