"""JSON parsing against Python's own parser: every value is an equal row, or bad."""

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.pipeline.formats import Format, parser
from sawlog.pipeline.formats.schema_inference import merge
from sawlog.pipeline.formats.spark_types import column_name, field_column, is_list
from support.pipeline.formats import outcome_of

NAMES = st.sampled_from(["a", "b", "c", "user id", "topic", "é", 'q"', "\\", ""]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=4
)
NUMBERS = (
    st.integers(-(2**70), 2**70)
    | st.integers(-5, 5)
    | st.floats()
    | st.sampled_from([2**63, 2**63 - 1, -(2**63), -(2**63) - 1, 0.1, 1e22, 1e23, 5e-324])
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS
ANYTHING = st.recursive(
    LEAVES,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(NAMES, inside, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, ANYTHING, max_size=4)


@st.composite
def written(draw: st.DrawFn, what: st.SearchStrategy[Any] = OBJECTS) -> bytes:
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r ")]))
    text = json.dumps(draw(what), ensure_ascii=draw(st.booleans()), separators=separators)
    return text.encode()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    value = bytearray(draw(written()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(value)))
        match draw(st.sampled_from(["cut", "put", "change", "double"])):
            case "cut":
                del value[at:]
            case "put":
                value[at:at] = draw(st.sampled_from([*b'{}[]",:\\0-e.\x00\xc3n', 0xFF])).to_bytes()
            case "change" if at < len(value):
                value[at] = draw(st.integers(0, 255))
            case _:
                value += value[at:]
    return bytes(value)


VALUES = st.lists(
    st.none() | written() | written(ANYTHING) | damaged() | st.binary(max_size=8), max_size=12
)


class Nothing(Exception):
    """Marks a value for which Python has no object."""


def read(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise Nothing
    try:
        found = json.loads(value.removeprefix(b"\xef\xbb\xbf").decode())
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair is not text
    except (ValueError, RecursionError):
        raise Nothing from None
    if not isinstance(found, dict):
        raise Nothing
    return found


def has_clash(value: Any, *, is_top: bool = False) -> bool:
    """Whether two fields of one object belong to one column."""
    if isinstance(value, list):
        return any(map(has_clash, value))
    if not isinstance(value, dict):
        return False
    name = field_column if is_top else column_name
    columns = {name(key).lower() for key in value}
    return len(columns) < len(value) or any(map(has_clash, value.values()))


def has_leaf(value: Any, wanted: Callable[[Any], bool]) -> bool:
    if isinstance(value, list | dict):
        inside = value.values() if isinstance(value, dict) else value
        return any(has_leaf(one, wanted) for one in inside)
    return wanted(value)


def is_no_double(leaf: Any) -> bool:
    return isinstance(leaf, int) and int(float(leaf)) != leaf


def is_nothing(value: Any) -> bool:
    """Whether a value alone makes no column."""
    if isinstance(value, list | dict):
        inside = value.values() if isinstance(value, dict) else value
        return all(map(is_nothing, inside))
    return value is None


def holds_nothing(value: Any) -> bool:
    if not isinstance(value, list | dict):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return is_nothing(value) or any(map(holds_nothing, inside))


def check_equal(found: Any, type_: pa.DataType, value: Any) -> None:
    if value is None:
        assert found is None
    elif pa.types.is_struct(type_):
        check_object(found, type_, value, is_top=False)
    elif is_list(type_):
        assert len(found) == len(value)
        for one, other in zip(found, value, strict=True):
            check_equal(one, type_.value_type, other)
    elif pa.types.is_string(type_):
        if isinstance(value, str):
            assert found == value
        else:
            assert same(json.loads(found), value)
    elif pa.types.is_floating(type_):
        assert found == value if isinstance(value, int) else same(found, value)
    elif pa.types.is_decimal(type_):
        assert found == Decimal(value)
    else:
        assert type(found) is type(value)
        assert found == value


def same(one: Any, other: Any) -> bool:
    """Equality in which NaN equals itself and zero differs from minus zero."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and bool(one == other)


def check_object(found: Any, fields: Any, value: dict[str, Any], *, is_top: bool) -> None:
    types = {part.name.lower(): (part.name, part.type) for part in fields}
    name = field_column if is_top else column_name
    for key, inside in value.items():
        folded = name(key).lower()
        if folded in types:
            column, type_ = types.pop(folded)
            check_equal(found[column], type_, inside)
        else:
            assert is_nothing(inside)
    assert all(found[column] is None for column, _ in types.values())


def check(values: list[bytes | None], known: pa.Schema | None) -> pa.Schema:
    parsed = parser(Format("json"), known, infer=True)(pa.array(values, pa.binary()))
    outcome = outcome_of(parsed, len(values))
    rows = iter(outcome.rows)
    for number, value in enumerate(values):
        try:
            expected = read(value)
        except Nothing:
            assert number in outcome.bad
            continue
        if number in outcome.bad:
            if known is not None and holds_nothing(expected):
                continue  # it made no column, so that of the others need not fit
            if "which a double does not hold exactly" in outcome.bad[number]:
                assert has_leaf(expected, is_no_double)
                continue
            if "which is beyond the range of double" in outcome.bad[number]:
                assert has_leaf(expected, lambda leaf: leaf in (0.0, math.inf, -math.inf))
                continue
            assert has_clash(expected, is_top=True) or b"\\u" in (value or b"")
            assert "both belong to column" in outcome.bad[number]
        else:
            check_object(next(rows), outcome.schema, expected, is_top=True)
    return outcome.schema


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_every_value_is_the_row_that_python_reads_or_bad(values: list[bytes | None]) -> None:
    check(values, None)


@settings(max_examples=60, deadline=None)
@given(VALUES, VALUES)
def test_types_inferred_by_two_tasks_merge_into_one_that_fits_all_rows(
    first: list[bytes | None], second: list[bytes | None]
) -> None:
    merged = merge(None, check(first, None), check(second, None))
    for values in (first, second):
        schema = check(values, merged.schema)
        assert merge(merged.schema, schema).clashes == []
