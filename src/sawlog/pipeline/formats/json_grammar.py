"""The JSON grammar over a byte buffer, inlined into the compiled loops that use it.

It is RFC 8259 plus NaN, Infinity and -Infinity, as in Python and Spark. Every read is checked
against the given end, and nesting against the stack. Functions take a start position and return the
position where they stopped with a kind, or a negative error code.
"""

import numpy as np

from sawlog.compiled.numba_cache import helper
from sawlog.pipeline.formats.compiled import LONG, Bytes

# Kinds of a slot. The start and end of a string exclude its quotes.
MISSING, NULL, FALSE, TRUE, INTEGER, BIG_INTEGER, FLOAT = 0, 1, 2, 3, 4, 5, 6
STRING, ESCAPED, OBJECT, ARRAY = 7, 8, 9, 10
KINDS = 11

# What to do with a member that has no slot.
IGNORE, RECORD, REFUSE = 0, 1, 2

# Error codes. NOT_AN_OBJECT is lowered by the kind that was found.
OK, NO_VALUE, EMPTY, CUT_OFF, UNEXPECTED, BAD_ESCAPE, BAD_SURROGATE = 0, -1, -2, -3, -4, -5, -6
CONTROL, BAD_NUMBER, TOO_DEEP, NOT_UTF8, TRAILING, TOO_MANY_FIELDS = -7, -8, -9, -10, -11, -12
NOT_AN_OBJECT = -20

MAX_LEVELS = 500
HIGH = 64  # flag beside a kind: there are bytes beyond ASCII
_IS_PLAIN = np.array([32 <= c < 128 and c not in (34, 92) for c in range(256)])
_IS_BLANK = np.array([c in (32, 9, 10, 13) for c in range(256)])
_IS_ESCAPE = np.array([c in b'"\\/bfnrt' for c in range(256)])
_HEX = np.array([int(chr(c), 16) if chr(c) in "0123456789abcdefABCDEF" else -1 for c in range(256)])


@helper
def skip(data: Bytes, i: int, stop: int) -> int:
    while i < stop and _IS_BLANK[data[i]]:
        i += 1
    return i


@helper
def hex4(data: Bytes, i: int, stop: int) -> int:
    """The value of four hexadecimal digits; -1 if they are not."""
    if i + 4 > stop:
        return -1
    number = 0
    for k in range(i, i + 4):
        digit = _HEX[data[k]]
        if digit < 0:
            return -1
        number = number * 16 + digit
    return number


@helper
def _escape(data: Bytes, i: int, stop: int) -> tuple[int, int]:
    """The position after the escape that starts at `i`, or an error code."""
    if i + 1 >= stop:
        return i, CUT_OFF
    if _IS_ESCAPE[data[i + 1]]:
        return i + 2, OK
    if data[i + 1] != 117:  # u
        return i, BAD_ESCAPE
    unit = hex4(data, i + 2, stop)
    if unit < 0:
        return i, BAD_ESCAPE
    if unit < 0xD800 or unit > 0xDFFF:
        return i + 6, OK
    if unit > 0xDBFF or i + 8 > stop or data[i + 6] != 92 or data[i + 7] != 117:
        return i, BAD_SURROGATE
    low = hex4(data, i + 8, stop)
    if low < 0xDC00 or low > 0xDFFF:
        return i, BAD_SURROGATE
    return i + 12, OK


@helper
def string(data: Bytes, i: int, stop: int) -> tuple[int, int]:
    """The position after the closing quote, with the kind; `i` is after the opening quote."""
    kind, high = STRING, 0
    while i < stop:
        c = data[i]
        if _IS_PLAIN[c]:
            i += 1
        elif c == 34:
            return i + 1, kind | high
        elif c >= 128:
            high = HIGH
            i += 1
        elif c == 92:
            kind = ESCAPED
            i, code = _escape(data, i, stop)
            if code < 0:
                return i, code
        else:
            return i, CONTROL
    return i, CUT_OFF


_WORDS = np.frombuffer(b"truefalsenullNaNInfinity", np.uint8)


@helper
def _word(data: Bytes, i: int, stop: int, first: int, length: int, kind: int) -> tuple[int, int]:
    """The position after one of the words above."""
    for k in range(length):
        if i + k >= stop:
            return i + k, CUT_OFF
        if data[i + k] != _WORDS[first + k]:
            return i + k, UNEXPECTED
    return i + length, kind


@helper
def _digits(data: Bytes, i: int, stop: int) -> int:
    while i < stop and 48 <= data[i] <= 57:
        i += 1
    return i


@helper
def _fits_int64(data: Bytes, first: int, last: int, negative: bool) -> bool:
    if last - first != 19:
        return last - first < 19
    limit = 9223372036854775807 // 10
    number = 0
    for k in range(first, last - 1):
        number = number * 10 + (data[k] - 48)
    if number != limit:
        return number < limit
    return bool(data[last - 1] - 48 <= (8 if negative else 7))


@helper
def _number(data: Bytes, i: int, stop: int) -> tuple[int, int]:
    negative = data[i] == 45
    first = i + 1 if negative else i
    if first < stop and data[first] == 73:
        return _word(data, first, stop, LONG(16), LONG(8), LONG(FLOAT))
    i = _digits(data, first, stop)
    if i == first or (i - first > 1 and data[first] == 48):
        return i, (CUT_OFF if i >= stop and i == first else BAD_NUMBER)
    kind = INTEGER if _fits_int64(data, first, i, negative) else BIG_INTEGER
    if i < stop and data[i] == 46:
        kind = FLOAT
        first = i + 1
        i = _digits(data, first, stop)
        if i == first:
            return i, BAD_NUMBER
    if i < stop and (data[i] == 101 or data[i] == 69):
        kind = FLOAT
        i += 1
        if i < stop and (data[i] == 43 or data[i] == 45):
            i += 1
        first = i
        i = _digits(data, first, stop)
        if i == first:
            return i, BAD_NUMBER
    return i, kind


@helper
def _scalar(data: Bytes, i: int, stop: int) -> tuple[int, int]:
    c = data[i]
    if c == 34:
        return string(data, i + 1, stop)
    if c == 45 or 48 <= c <= 57:
        return _number(data, i, stop)
    if c == 116:
        return _word(data, i, stop, LONG(0), LONG(4), LONG(TRUE))
    if c == 102:
        return _word(data, i, stop, LONG(4), LONG(5), LONG(FALSE))
    if c == 110:
        return _word(data, i, stop, LONG(9), LONG(4), LONG(NULL))
    if c == 78:
        return _word(data, i, stop, LONG(13), LONG(3), LONG(FLOAT))
    if c == 73:
        return _word(data, i, stop, LONG(16), LONG(8), LONG(FLOAT))
    return i, UNEXPECTED


@helper
def key(data: Bytes, i: int, stop: int) -> tuple[int, int]:
    """The position of a member's value, after its key and colon."""
    if i >= stop:
        return i, CUT_OFF
    if data[i] != 34:
        return i, UNEXPECTED
    i, kind = string(data, i + 1, stop)
    if kind < 0:
        return i, kind
    i = skip(data, i, stop)
    if i >= stop:
        return i, CUT_OFF
    if data[i] != 58:
        return i, UNEXPECTED
    return skip(data, i + 1, stop), kind


@helper
def value(data: Bytes, i: int, stop: int, stack: Bytes) -> tuple[int, int]:
    """The position after the value that starts at `i`, with its kind (and HIGH), or an error."""
    if i >= stop:
        return i, CUT_OFF
    if data[i] != 123 and data[i] != 91:
        return _scalar(data, i, stop)
    kind = OBJECT if data[i] == 123 else ARRAY
    high, depth, is_fresh = 0, 0, True
    stack[0] = data[i]
    i = skip(data, i + 1, stop)
    while True:
        # Here a member, an element, or the end of an empty container follows.
        is_object = stack[depth] == 123
        closing = 125 if is_object else 93
        if is_fresh and i < stop and data[i] == closing:
            i += 1
        else:
            if is_object:
                i, found = key(data, i, stop)
                if found < 0:
                    return i, found
                high |= found & HIGH
            if i >= stop:
                return i, CUT_OFF
            if data[i] == 123 or data[i] == 91:
                depth += 1
                if depth >= len(stack):
                    return i, TOO_DEEP
                stack[depth] = data[i]
                i, is_fresh = skip(data, i + 1, stop), True
                continue
            i, found = _scalar(data, i, stop)
            if found < 0:
                return i, found
            high |= found & HIGH
            depth += 1  # treated as a container, which is closed below
        while True:
            depth -= 1
            if depth < 0:
                return i, kind | high
            i = skip(data, i, stop)
            if i >= stop:
                return i, CUT_OFF
            if data[i] == 44:
                i, is_fresh = skip(data, i + 1, stop), False
                break
            if data[i] != (125 if stack[depth] == 123 else 93):
                return i, UNEXPECTED
            i += 1


@helper
def is_marked(data: Bytes, i: int, stop: int) -> bool:
    """Whether a byte order mark is at `i`."""
    return bool(i + 3 <= stop and data[i] == 0xEF and data[i + 1] == 0xBB and data[i + 2] == 0xBF)


@helper
def not_utf8(data: Bytes, i: int, stop: int) -> int:
    """The position of the first byte that is not UTF-8; -1 if all are."""
    while i < stop:
        c = data[i]
        if c < 0x80:
            i += 1
            continue
        more = 1 if 0xC2 <= c <= 0xDF else 2 if 0xE0 <= c <= 0xEF else 3
        if c < 0xC2 or c > 0xF4 or i + more >= stop:
            return i
        second = data[i + 1]
        low = 0xA0 if c == 0xE0 else 0x90 if c == 0xF0 else 0x80
        high = 0x9F if c == 0xED else 0x8F if c == 0xF4 else 0xBF
        if second < low or second > high:
            return i
        for k in range(i + 2, i + more + 1):
            if data[k] & 0xC0 != 0x80:
                return i
        i += more + 1
    return -1
