"""Cuts lines of separated fields apart, compiled, and takes the quotes out of quoted ones."""

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

# Why a value is no row; below what JSON's grammar uses, so that both can be told by one table.
UNCLOSED, BEHIND_QUOTE, SECOND_LINE, FIELD_COUNT = -40, -41, -42, -43


@helper
def _quoted(data: Bytes, i: int, stop: int, quote: int) -> tuple[int, int]:
    """The closing quote's place, and the kind; i is behind the opening one."""
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
    """How many fields the line has, or where it is wrong and why. An empty field is MISSING."""
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
def cut_apart(
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
    """Cuts values into as many fields as there are slots: how many were so; the rest as JSON's
    `take_apart` has it. A quote of zero is none.
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
    """The texts of the fields wanted, one behind the other, one quote for two; their length."""
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
