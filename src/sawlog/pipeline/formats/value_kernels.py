"""Compiled loops that convert slots to numbers and text.

Slots of other kinds stay empty; the caller decides whether they are allowed. Floats are correctly
rounded: those that need more than one operation are left to Python's parser.
"""

import numpy as np
import numpy.typing as npt

from sawlog.compiled.numba_cache import helper
from sawlog.pipeline.formats.compiled import LONG, Bytes, Flags, Places, kernel
from sawlog.pipeline.formats.json_grammar import BIG_INTEGER, ESCAPED, FLOAT, INTEGER, hex4

_POWERS = np.array([10.0**power for power in range(23)])
_LONGEST = 10**17  # one more digit still fits 64 bits
_EXACT = 1 << 53
_LETTERS = np.zeros(256, np.uint8)
for _letter, _meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _LETTERS[_letter] = _meaning


@kernel
def integers(
    data: Bytes, kinds: Bytes, begins: Places, ends: Places, out: npt.NDArray[np.int64]
) -> None:
    """The numbers of all INTEGER slots; zero for others."""
    for row in range(len(kinds)):
        number = np.int64(0)
        if kinds[row] == INTEGER:
            i = LONG(begins[row])
            is_negative = data[i] == 45
            if is_negative:
                i += 1
            # Counted downwards: the smallest integer has no positive counterpart.
            for k in range(i, ends[row]):
                number = number * 10 - (np.int64(data[k]) - 48)
            if not is_negative:
                number = -number
        out[row] = number


@helper
def _decimal(data: Bytes, i: int, stop: int) -> tuple[int, int, bool]:
    """The digits and exponent of a number; False if there are too many, or it is not finite."""
    number, power, after_point = LONG(0), LONG(0), False
    while i < stop:
        c = LONG(data[i])
        if 48 <= c <= 57:
            if number >= _LONGEST:
                return 0, 0, False
            number = number * 10 + (c - 48)
            power -= 1 if after_point else 0
        elif c == 46:
            after_point = True
        elif c == 101 or c == 69:
            break
        else:
            return 0, 0, False
        i += 1
    if i < stop:
        i += 1
        is_negative = data[i] == 45
        if is_negative or data[i] == 43:
            i += 1
        if stop - i > 4:
            return 0, 0, False
        written = LONG(0)
        for k in range(i, stop):
            written = written * 10 + (LONG(data[k]) - 48)
        power += -written if is_negative else written
    return number, power, True


@kernel
def doubles(
    data: Bytes,
    kinds: Bytes,
    begins: Places,
    ends: Places,
    out: npt.NDArray[np.float64],
    left: Flags,
) -> int:
    """The numbers of all numeric slots; returns how many are flagged in `left` for Python."""
    count = 0
    for row in range(len(kinds)):
        out[row] = 0.0
        left[row] = False
        kind = kinds[row]
        if kind in (INTEGER, FLOAT, BIG_INTEGER):
            i = LONG(begins[row])
            sign = 1.0
            if data[i] == 45:
                sign, i = -1.0, i + 1
            number, power, is_short = _decimal(data, i, LONG(ends[row]))
            if is_short and number <= _EXACT and -22 <= power <= 22:
                # Both are exact, so one operation rounds correctly.
                if power < 0:
                    out[row] = sign * (number / _POWERS[-power])
                else:
                    out[row] = sign * (number * _POWERS[power])
            else:
                left[row] = True
                count += 1
    return count


@helper
def _utf8(code: int, out: Bytes, at: int) -> int:
    if code < 0x80:
        out[at] = code
        return at + 1
    if code < 0x800:
        out[at] = 0xC0 | (code >> 6)
        out[at + 1] = 0x80 | (code & 63)
        return at + 2
    if code < 0x10000:
        out[at] = 0xE0 | (code >> 12)
        out[at + 1] = 0x80 | ((code >> 6) & 63)
        out[at + 2] = 0x80 | (code & 63)
        return at + 3
    out[at] = 0xF0 | (code >> 18)
    out[at + 1] = 0x80 | ((code >> 12) & 63)
    out[at + 2] = 0x80 | ((code >> 6) & 63)
    out[at + 3] = 0x80 | (code & 63)
    return at + 4


@helper
def _unescape(data: Bytes, i: int, stop: int, out: Bytes, at: int) -> int:
    """Write a string without its escapes, which are valid; it never gets longer."""
    while i < stop:
        if data[i] != 92:
            out[at] = data[i]
            at += 1
            i += 1
        elif data[i + 1] != 117:
            out[at] = _LETTERS[data[i + 1]]
            at += 1
            i += 2
        else:
            code = hex4(data, i + 2, stop)
            i += 6
            if 0xD800 <= code <= 0xDBFF:
                code = 0x10000 + ((code - 0xD800) << 10) + (hex4(data, i + 2, stop) - 0xDC00)
                i += 6
            at = _utf8(code, out, at)
    return at


@kernel
def texts(
    data: Bytes,
    kinds: Bytes,
    begins: Places,
    ends: Places,
    wanted: Flags,
    out: Bytes,
    bounds: Places,
) -> int:
    """Write the text of the wanted slots one after another; returns the length.

    Strings are unescaped, other values are copied.
    """
    at = LONG(0)
    for row in range(len(kinds)):
        bounds[row] = at
        if wanted[row]:
            i, stop = LONG(begins[row]), LONG(ends[row])
            if kinds[row] == ESCAPED:
                at = _unescape(data, i, stop, out, at)
            else:
                for k in range(stop - i):
                    out[at + k] = data[i + k]
                at += stop - i
    bounds[len(kinds)] = at
    return at
