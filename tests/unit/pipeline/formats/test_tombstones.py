"""Records without a value become rows of nulls."""

import pyarrow as pa
import pytest

from sawlog.pipeline.formats import parser
from sawlog.pipeline.formats.parsed import BadRow, Format, Parsed
from sawlog.pipeline.formats.tombstones import land_tombstones


def landed(values: list[bytes | None], known: pa.Schema | None = None) -> Parsed:
    array = pa.array(values, pa.binary())
    (part,) = parser(Format("json"), known, infer=known is None)(array)
    return land_tombstones(array, part)


def test_a_tombstone_is_a_row_of_nulls_at_its_place() -> None:
    found = landed([b'{"a": 1}', None, b'{"a": 3}', None])
    assert found.rows.to_pydict() == {"a": [1, None, 3, None]}
    assert found.kept is None
    assert found.bad == []


def test_bad_values_beside_tombstones_stay_bad() -> None:
    found = landed([b"{", b'{"a": 1}', None, b"", b'{"a": 2}'])
    assert found.rows.to_pydict() == {"a": [1, None, 2]}
    assert found.kept is not None
    assert found.kept.to_pylist() == [1, 2, 4]
    assert [bad.row for bad in found.bad] == [0, 3]


@pytest.mark.parametrize("known", [None, pa.schema([pa.field("a", pa.int64())])])
def test_tombstones_alone_are_rows(known: pa.Schema | None) -> None:
    found = landed([None, None], known)
    assert found.rows.num_rows == 2
    assert found.bad == []


def test_values_without_tombstones_are_unchanged() -> None:
    values = pa.array([b"{", b"{}"], pa.binary())
    part = Parsed(pa.record_batch({"a": [1]}), pa.array([1]), [BadRow(0, "x")])
    assert land_tombstones(values, part) is part


def test_tombstones_beside_fractions_leave_the_column_to_be_widened() -> None:
    found = landed([b'{"a": 1.5}', None], pa.schema([pa.field("a", pa.int64())]))
    assert list(found.widen) == []  # columns that are declared keep their type
    array = pa.array([b'{"a": 1.5}', None], pa.binary())
    (part,) = parser(Format("json"), pa.schema([pa.field("a", pa.int64())]), infer=True)(array)
    assert list(land_tombstones(array, part).widen) == ["a"]
