"""Numbers in JSON and CSV: a row has the number that was sent, as Python's decimal reads it, or the
value is bad; and no value is bad without need.
"""

import decimal
import json
import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.pipeline.formats.schema_inference import from_ddl
from support.pipeline.formats import Outcome, parse

DIGITS = st.text("0123456789", min_size=1, max_size=50)
EXPONENTS = st.integers(-450, 450) | st.integers(-25, 25) | st.sampled_from([-324, 308, 309, 38])
EXACT = decimal.Context(2_000)
SIGNS = st.sampled_from(["", "-"])
EDGES = st.sampled_from(
    [0, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, 2**63, 2**64 - 1, 10**22, 10**23,
     10**38 - 1, 10**38, 10**44, 2**150, 10**309]
).map(str)  # fmt: skip
WHOLE = st.builds(str.__add__, SIGNS, DIGITS.map(lambda text: text.lstrip("0") or "0") | EDGES)
FRACTIONS = st.builds("{}.{}".format, WHOLE, DIGITS)
POWERS = st.builds("{}{}{}".format, WHOLE | FRACTIONS, st.sampled_from("eE"), EXPONENTS)
NUMBERS = WHOLE | FRACTIONS | POWERS | st.floats(allow_nan=False, allow_infinity=False).map(repr)


def is_whole(text: str) -> bool:
    return not set(text) & set(".eE")


def nearest(text: str, type_: str = "double") -> float | None:
    """The nearest float; None if the number is out of range."""
    found = float(text)
    if type_ == "float":
        try:
            (found,) = struct.unpack("f", struct.pack("f", found))
        except OverflowError:
            return None
    is_lost = math.isinf(found) or (found == 0) != (Decimal(text) == 0)
    return None if is_lost else found


def only(outcome: Outcome) -> Any:
    """The value of the only row's only column; None if it is bad."""
    assert len(outcome.rows) + len(outcome.bad) == 1
    return outcome.rows[0]["a"] if outcome.rows else None


def same_float(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == other and math.copysign(1, one) == math.copysign(1, other)


@settings(max_examples=300, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=5))
def test_inferred_columns_hold_the_numbers_that_were_sent(texts: list[str]) -> None:
    outcome = parse("json", *(f'{{"a": {text}}}'.encode() for text in texts))
    rows = iter(outcome.rows)
    for number, text in enumerate(texts):
        if number in outcome.bad:
            if not is_whole(text):
                assert nearest(text) is None
            else:  # too long for a decimal, or no double equals it
                is_long = abs(int(text)) >= 10**38
                found = float(text)
                is_other = math.isinf(found) or int(found) != int(text)
                assert is_long or (is_other and not all(map(is_whole, texts)))
            continue
        found = next(rows)["a"]
        if is_whole(text):
            assert Decimal(found) == Decimal(text)
        else:
            assert same_float(found, nearest(text))
            assert same_float(found, json.loads(text))


@pytest.mark.parametrize("type_", ["double", "float"])
@settings(max_examples=150, deadline=None)
@given(NUMBERS)
def test_declared_floats_are_the_nearest_or_bad(type_: str, text: str) -> None:
    known = from_ddl(f"a {type_}")
    expected = nearest(text, type_)
    assert same_float(only(parse("json", f'{{"a": {text}}}'.encode(), known=known)), expected)
    if type_ == "double":  # CSV floats are rounded once, JSON floats by way of a double
        assert same_float(only(parse("csv", text.encode(), known=known)), expected)


@settings(max_examples=150, deadline=None)
@given(NUMBERS, st.sampled_from(["decimal(38,0)", "decimal(20,5)", "bigint", "string"]))
def test_declared_exact_columns_have_the_exact_number_or_it_is_bad(text: str, type_: str) -> None:
    for kind, value in (("json", f'{{"a": {text}}}'), ("csv", text)):
        found = only(parse(kind, value.encode(), known=from_ddl(f"a {type_}")))
        if type_ == "string":
            assert found == text
        elif found is not None:
            assert Decimal(found) == Decimal(text)
        elif type_ == "bigint":
            assert not is_whole(text) or not -(2**63) <= int(text) < 2**63
        else:
            digits, scale = (38, 0) if type_ == "decimal(38,0)" else (20, 5)
            number = Decimal(text)
            is_fraction = EXACT.remainder(number, Decimal(1).scaleb(-scale)) != 0
            assert is_fraction or EXACT.abs(number) >= 10 ** (digits - scale)
