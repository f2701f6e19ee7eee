"""Compiled loops that split CSV lines into fields and unquote them."""

from sawlog.compiled.numba_cache import helper
from sawlog.pipeline.formats.compiled import LONG, Bytes, Flags, Places, kernel
from sawlog.pipeline.formats.json_grammar import (
    ESCAPED,
    MISSING,
    NO_VALUE,
    NOT_UTF8,
    STRING,
    is_marked,
    not_utf8,
)
from sawlog.pipeline.formats.json_kernels import Slots

# Error codes of lines; they continue those of the JSON grammar, so that one table names both.
UNCLOSED, BEHIND_QUOTE, SECOND_LINE, FIELD_COUNT = -40, -41, -42, -43


@helper
def _quoted(data: Bytes, i: int, stop: int, quote: int) -> tuple[int, int]:
    """The position of the closing quote and the kind; `i` is after the opening quote."""
    kind = STRING
    while i < stop:
        if data[i] == quote:
            if i + 1 < stop and data[i + 1] == quote:
                kind = ESCAPED
                i += 1
            else:
                return i, kind
        i += 1
    return i, UNCLOSED


@helper
def _line(
    data: Bytes, i: int, stop: int, delimiter: int, quote: int, column: int, slots: Slots
) -> tuple[int, int]:
    """The number of fields of a line, or the position and code of an error. Empty is MISSING."""
    kinds, begins, ends = slots
    count = 0
    while True:
        if i < stop and data[i] == quote and quote > 0:
            begin = i + 1
            end, kind = _quoted(data, begin, stop, quote)
            if kind < 0:
                return begin - 1, kind
            i = end + 1
            if i < stop and data[i] != delimiter:
                return i, BEHIND_QUOTE
        else:
            begin = i
            while i < stop and data[i] != delimiter:
                if data[i] == 10 or data[i] == 13:
                    return i, SECOND_LINE
                i += 1
            end = i
            kind = STRING if end > begin else MISSING
        if count < len(kinds):
            kinds[count, column] = kind
            begins[count, column] = begin
            ends[count, column] = end
        count += 1
        if i >= stop:
            return count, 0
        i += 1


@kernel
def split_lines(
    data: Bytes,
    begins: Places,
    ends: Places,
    delimiter: int,
    quote: int,
    slots: Slots,
    kept: Places,
    codes: Bytes,
    places: Places,
) -> int:
    """Split values into fields; returns the number of good lines, the rest as in `split_objects`.

    A quote of zero means no quoting.
    """
    good = LONG(0)
    for row in range(len(begins)):
        begin, stop = LONG(begins[row]), LONG(ends[row])
        if begin < 0:
            codes[row] = -NO_VALUE
            continue
        if stop > begin and data[stop - 1] == 10:
            stop -= 1
        if stop > begin and data[stop - 1] == 13:
            stop -= 1
        first = begin + 3 if is_marked(data, begin, stop) else begin
        place, code = _line(data, first, stop, delimiter, quote, good, slots)
        if code == 0 and place != len(slots[0]):
            code = FIELD_COUNT
            place += begin
        if code == 0:
            wrong = not_utf8(data, begin, stop)
            if wrong >= 0:
                place, code = wrong, NOT_UTF8
        if code < 0:
            codes[row] = -code
            places[row] = place - begin
            slots[0][:, good] = MISSING
        else:
            kept[good] = row
            good += 1
    return good


@kernel
def fields(
    data: Bytes,
    kinds: Bytes,
    begins: Places,
    ends: Places,
    quote: int,
    wanted: Flags,
    out: Bytes,
    bounds: Places,
) -> int:
    """Write the text of the wanted fields one after another, unquoted; returns the length."""
    at = LONG(0)
    for row in range(len(kinds)):
        bounds[row] = at
        if wanted[row]:
            i = LONG(begins[row])
            while i < ends[row]:
                out[at] = data[i]
                if kinds[row] == ESCAPED and data[i] == quote:
                    i += 1
                at += 1
                i += 1
    bounds[len(kinds)] = at
    return at
