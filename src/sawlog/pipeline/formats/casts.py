"""Casts text to dates, numbers and other types with Arrow, and flags text that does not fit.

A cast fails as a whole, so a failing array is halved until each misfit is alone. Times without a
zone are UTC; digits beyond microseconds are cut off; years are 1 to 9999. A float is the nearest
one; a number out of range does not fit, since it would become infinite or zero.
"""

import base64
import binascii
import decimal
import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.formats.compiled import Flags
from sawlog.pipeline.formats.spark_types import (
    END_S,
    FIRST_S,
    MAX_DIGITS,
    TIMESTAMP,
    plain,
    type_name,
)

Cast = Callable[[pa.Array], pa.Array]
_ZONE = r"(?i)[0-9](z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_DATE_AND_TIME = r"^[^:]*[ T][0-9]{2}(:|[0-9]|$)"
_TOO_FINE = r"(\.[0-9]{6})[0-9]+"
_HEXADECIMAL = "(?i)^-?0x"
_DECIMAL = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NOT_ZERO = r"^[+-]?[0.]*[1-9]"
_DAY_S = 86_400
_MISFIT = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    binascii.Error,
    decimal.DecimalException,
)


def cast_texts(texts: pa.Array, type_: pa.DataType) -> tuple[pa.Array, Flags]:
    """Cast text, or bytes that should be text, to a type.

    Returns the array, null at misfits, and flags of the misfits.
    """
    type_ = plain(type_)
    if texts.type == type_:
        return texts, np.zeros(len(texts), np.bool_)
    if pa.types.is_timestamp(type_):
        return _within_years(*cast_apart(texts, TIMESTAMP, _to_timestamps))
    if pa.types.is_date(type_):
        return _within_years(*cast_apart(texts, type_, lambda some: pc.cast(some, type_)))
    if pa.types.is_binary(type_):
        return cast_apart(texts, type_, _from_base64)
    if pa.types.is_integer(type_):
        return cast_apart(texts, type_, lambda some: _to_integers(some, type_))
    if pa.types.is_decimal(type_):
        return cast_apart(texts, type_, lambda some: _to_decimals(some, type_))
    if pa.types.is_floating(type_):
        return cast_apart(texts, type_, lambda some: _to_floats(some, type_))
    return cast_apart(texts, type_, lambda some: pc.cast(some, type_))


def beyond_range(type_: pa.DataType, text: str) -> str:
    """A suffix for the reason if a number is out of range of the type; else empty."""
    if pa.types.is_floating(type_) and re.search(_DECIMAL, text):
        return f", which is beyond the range of {type_name(type_)}"
    return ""


def is_zero(text: str) -> bool:
    """Whether all digits of a number are zeros: 1e-400 is not zero, though the nearest float is."""
    return re.search(_NOT_ZERO, text) is None


def cast_apart(values: pa.Array, type_: pa.DataType, cast: Cast) -> tuple[pa.Array, Flags]:
    """Cast values; returns the array, null at misfits, and flags of the misfits."""
    bad = np.zeros(len(values), np.bool_)
    parts: list[pa.Array] = []
    waiting = [(0, len(values))]
    while waiting:
        start, stop = waiting.pop()
        try:
            parts.append(cast(values.slice(start, stop - start)))
        except _MISFIT:
            if stop - start == 1:
                bad[start] = True
                parts.append(pa.nulls(1, type_))
                continue
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
    return pa.concat_arrays(parts) if len(parts) != 1 else parts[0], bad


def _within_years(array: pa.Array, bad: Flags) -> tuple[pa.Array, Flags]:
    """Reject years below 1 and above 9999, which a zone offset may lead to."""
    if pa.types.is_date(array.type):
        seconds = np.asarray(array.cast(pa.int32()).fill_null(0)).astype(np.int64) * _DAY_S
    else:
        seconds = np.asarray(array.cast(pa.int64()).fill_null(0)) // 1_000_000
    beyond = (seconds < FIRST_S) | (seconds >= END_S)
    if not beyond.any():
        return array, bad
    return pc.if_else(pa.array(beyond), pa.scalar(None, array.type), array), bad | beyond


def _to_timestamps(texts: pa.Array) -> pa.Array:
    try:
        return pc.cast(texts, TIMESTAMP)
    except pa.ArrowInvalid:
        pass
    texts = pc.replace_substring_regex(texts, _TOO_FINE, r"\1")
    has_zone = pc.and_(
        pc.match_substring_regex(texts, _ZONE), pc.match_substring_regex(texts, _DATE_AND_TIME)
    )
    none = pa.scalar(None, pa.string())
    zoned = pc.cast(pc.if_else(has_zone, texts, none), TIMESTAMP)
    local = pc.cast(pc.if_else(has_zone, none, texts), pa.timestamp("us"))
    return pc.coalesce(zoned, pc.assume_timezone(local, "UTC"))


def _to_integers(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast to integers, without the hexadecimal digits that Arrow accepts."""
    if pc.any(pc.match_substring_regex(texts, _HEXADECIMAL)).as_py():
        raise pa.ArrowInvalid("not a decimal number")
    return pc.cast(texts, type_)


def _to_floats(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast to floats; Arrow gives infinity or zero for numbers out of range."""
    floats = pc.cast(texts, type_)
    infinite = texts.filter(pc.is_inf(floats))
    zero = texts.filter(pc.equal(floats, pa.scalar(0, type_)))
    if (
        pc.any(pc.match_substring_regex(infinite, "[0-9]")).as_py()
        or pc.any(pc.match_substring_regex(zero, _NOT_ZERO)).as_py()
    ):
        raise pa.ArrowInvalid("beyond the range")
    return floats


def _to_decimals(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast to decimals. Arrow overflows or crashes beyond 38 digits or with large exponents, so
    Python reads such numbers.
    """
    whole = type_.precision - type_.scale
    is_short = pc.match_substring_regex(
        texts, rf"^[+-]?0*[0-9]{{0,{whole}}}(\.[0-9]{{0,{MAX_DIGITS - whole}}})?$"
    )
    none = pa.scalar(None, pa.string())
    short = pc.cast(pc.if_else(is_short, texts, none), type_)
    if pc.all(is_short).as_py() is not False:
        return short
    rest = pc.if_else(is_short, none, texts)
    if pc.any(pc.invert(pc.match_substring_regex(rest, _DECIMAL))).as_py():
        raise pa.ArrowInvalid("not a number")
    exact = decimal.Context(type_.precision, traps=[decimal.Inexact, decimal.InvalidOperation])
    unit = decimal.Decimal(1).scaleb(-type_.scale)
    numbers = [
        None if text is None else exact.quantize(decimal.Decimal(text), unit)
        for text in rest.to_pylist()
    ]
    return pc.coalesce(short, pa.array(numbers, type_))


def _from_base64(texts: pa.Array) -> pa.Array:
    values = (
        None if text is None else base64.b64decode(text.encode(), validate=True)
        for text in texts.to_pylist()
    )
    return pa.array(list(values), pa.binary())
