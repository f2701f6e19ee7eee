"""Decoded columns fit those of a table exactly, or not at all."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.pipeline.formats.column_fit import fit
from sawlog.pipeline.formats.ddl import from_ddl

NAN = float("nan")


def type_of(text: str) -> pa.DataType:
    return from_ddl(f"c {text}").field(0).type


@pytest.mark.parametrize(
    ("sent", "column", "values", "fitted", "misfits"),
    [
        ("BIGINT", "INT", [1, 2**40, None], [1, None], [1]),
        ("INT", "BIGINT", [1, None], [1, None], []),
        ("BIGINT", "DOUBLE", [2**53, 2**53 + 1], [2.0**53], [1]),
        ("INT", "FLOAT", [2**24, 2**24 + 1], [2.0**24], [1]),
        ("DOUBLE", "FLOAT", [0.5, 0.1, None, 1e300], [0.5, None], [1, 3]),
        ("FLOAT", "DOUBLE", [0.5], [0.5], []),
        ("DOUBLE", "INT", [1.0], [], [0]),
        ("DECIMAL(20,0)", "BIGINT", [1, 2**64 - 1], [1], [1]),
        ("DECIMAL(5,2)", "DECIMAL(5,1)", [Decimal("1.5"), Decimal("1.25")], [Decimal("1.5")], [1]),
        ("BIGINT", "DECIMAL(6,2)", [5, 2**60], [Decimal(5)], [1]),
        ("BOOLEAN", "INT", [True, None], [None], [0]),
        ("BOOLEAN", "STRING", [True], ["true"], []),
        ("INT", "STRING", [7], ["7"], []),
        ("BINARY", "STRING", [b"a", b"\xff"], ["a"], [1]),
        ("STRING", "BINARY", ["ä"], ["ä".encode()], []),
        ("STRING", "INT", ["7", None], [None], [0]),
        ("DATE", "TIMESTAMP", [0], [], [0]),
        ("ARRAY<BIGINT>", "ARRAY<INT>", [[1], None, [], [2, 2**40]], [[1], None, []], [3]),
        ("MAP<STRING, BIGINT>", "MAP<STRING, INT>", [[("a", 1)], None, [("a", 2**40)]],
         [[("a", 1)], None], [2]),
        ("STRUCT<a: BIGINT>", "STRUCT<A: INT, b: STRING>", [{"a": 1}, None, {"a": 2**40}],
         [{"A": 1, "b": None}, None], [2]),
        ("STRUCT<a: INT, b: INT>", "STRUCT<a: INT>", [{"a": 1, "b": None}, {"a": 1, "b": 2}],
         [{"a": 1}], [1]),
        ("STRUCT<a: INT>", "STRING", [{"a": 1}, None], [None], [0]),
    ],
)  # fmt: skip
def test_a_value_is_kept_or_a_misfit(
    sent: str, column: str, values: list[Any], fitted: list[Any], misfits: list[int]
) -> None:
    for skipped in (0, 1):  # a slice has an offset
        array = pa.array([None] * skipped + values, type_of(sent)).slice(skipped)
        found, flags = fit(array, type_of(column), strict=True)
        found.validate(full=True)
        assert found.type == type_of(column)
        assert np.flatnonzero(flags).tolist() == misfits
        assert found.filter(pa.array(~flags)).to_pylist() == fitted


def test_fields_without_a_column_are_ignored_unless_strict() -> None:
    array = pa.array([{"a": 1, "b": 2}], type_of("STRUCT<a: INT, b: INT>"))
    found, flags = fit(array, type_of("STRUCT<a: INT>"), strict=False)
    assert (found.to_pylist(), flags.tolist()) == ([{"a": 1}], [False])


def test_nan_fits_a_float() -> None:
    found, flags = fit(pa.array([NAN, 1.0]), pa.float32(), strict=True)
    assert not flags.any()
    assert np.isnan(found[0].as_py())


_NUMBERS = [type_of(text) for text in ("INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(20,3)")]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.sampled_from(_NUMBERS))
def test_integers_never_change(values: list[int], type_: pa.DataType) -> None:
    found, flags = fit(pa.array(values, pa.int64()), type_, strict=True)
    for value, stored, is_misfit in zip(values, found.to_pylist(), flags.tolist(), strict=True):
        assert is_misfit or stored == value


@given(st.lists(st.floats(allow_nan=False)), st.sampled_from(_NUMBERS))
def test_doubles_never_change(values: list[float], type_: pa.DataType) -> None:
    found, flags = fit(pa.array(values, pa.float64()), type_, strict=True)
    for value, stored, is_misfit in zip(values, found.to_pylist(), flags.tolist(), strict=True):
        assert is_misfit or stored == value
