"""Compiled loops that split JSON objects into slots, one per wanted member, without Python objects.

A slot is a kind, a start and an end in the buffer. Nested objects stay text here and are split by
another call, so that each nesting level is one pass over all rows.
"""

import numpy as np
import numpy.typing as npt

from sawlog.compiled.numba_cache import helper
from sawlog.pipeline.formats.compiled import LONG, Bytes, Flags, Places, kernel
from sawlog.pipeline.formats.json_grammar import (
    ARRAY,
    CUT_OFF,
    EMPTY,
    ESCAPED,
    HIGH,
    MAX_LEVELS,
    MISSING,
    NO_VALUE,
    NOT_AN_OBJECT,
    NOT_UTF8,
    OBJECT,
    OK,
    RECORD,
    REFUSE,
    STRING,
    TOO_MANY_FIELDS,
    TRAILING,
    UNEXPECTED,
    is_marked,
    not_utf8,
    skip,
    string,
    value,
)

Names = tuple[Bytes, Places, Places, Places]
"""All keys one after another; their start positions and the end; a hash table (a power of two of
places with a key's number or -1); the slot of each key, -1 to ignore it.
"""
Slots = tuple[Bytes, Places, Places]
"""Kinds, starts and ends; one row per slot and one column per object."""
Unknown = tuple[Places, Places, npt.NDArray[np.int64]]
"""Starts, ends and the number of keys without a slot."""


@helper
def _same(data: Bytes, i: int, j: int, names: Bytes, first: int, last: int) -> bool:
    if j - i != last - first:
        return False
    k = 0
    while k < j - i and data[i + k] == names[first + k]:
        k += 1
    return k == j - i


@helper
def _hash(data: Bytes, i: int, j: int) -> int:
    number = 2166136261
    for k in range(i, j):
        number = ((number ^ data[k]) * 16777619) & 0xFFFFFFFF
    return number


@kernel
def index_names(names: Bytes, bounds: Places, table: Places) -> None:
    """Fill the hash table, which is passed in full of -1."""
    for name in range(len(bounds) - 1):
        place = _hash(names, LONG(bounds[name]), LONG(bounds[name + 1])) & (len(table) - 1)
        while table[place] >= 0:
            place = (place + 1) & (len(table) - 1)
        table[place] = name


@helper
def _find(data: Bytes, i: int, j: int, names: Bytes, bounds: Places, table: Places) -> int:
    place = _hash(data, i, j) & (len(table) - 1)
    while table[place] >= 0:
        name = table[place]
        if _same(data, i, j, names, LONG(bounds[name]), LONG(bounds[name + 1])):
            return LONG(name)
        place = (place + 1) & (len(table) - 1)
    return -1


@helper
def _name(
    data: Bytes,
    i: int,
    j: int,
    names: Bytes,
    bounds: Places,
    table: Places,
    order: Places,
    place: int,
) -> int:
    """The number of a key, or -1. `order` has the numbers of the previous object's members, since
    the next object likely has the same ones.
    """
    name = LONG(order[place]) if place < len(order) else LONG(-1)
    if name < 0 or not _same(data, i, j, names, LONG(bounds[name]), LONG(bounds[name + 1])):
        name = _find(data, i, j, names, bounds, table)
        if place < len(order):
            order[place] = name
    return name


@helper
def _member(data: Bytes, i: int, stop: int) -> tuple[int, int, int]:
    """The position of a member's value, the end of its key and the key's kind; or an error."""
    if i >= stop:
        return i, i, LONG(CUT_OFF)
    if data[i] != 34:
        return i, i, LONG(UNEXPECTED)
    i, kind = string(data, i + 1, stop)
    last = i - 1
    if kind < 0:
        return i, last, kind
    i = skip(data, i, stop)
    if i >= stop:
        return i, last, LONG(CUT_OFF)
    if data[i] != 58:
        return i, last, LONG(UNEXPECTED)
    return skip(data, i + 1, stop), last, kind


@helper
def _object(
    data: Bytes,
    i: int,
    stop: int,
    names: Names,
    mode: int,
    column: int,
    slots: Slots,
    unknown: Unknown,
    order: Places,
    stack: Bytes,
) -> tuple[int, int]:
    """The position after the object that starts at `i`, with OK or HIGH, or an error code."""
    keys, bounds, table, slot_of = names
    kinds, begins, ends = slots
    unknown_begins, unknown_ends, unknown_count = unknown
    high, place = LONG(0), LONG(0)
    i = skip(data, i + 1, stop)
    if i < stop and data[i] == 125:
        return i + 1, OK
    while True:
        first = i + 1
        i, last, kind = _member(data, i, stop)
        if kind < 0:
            return i, kind
        high |= kind & HIGH
        name = _name(data, first, last, keys, bounds, table, order, place)
        place += 1
        begin = i
        i, kind = value(data, i, stop, stack)
        if kind < 0:
            return i, kind
        high |= kind & HIGH
        kind &= HIGH - 1
        if name >= 0:
            slot = slot_of[name]
            if slot >= 0:
                quote = 1 if kind in (STRING, ESCAPED) else 0
                kinds[slot, column] = kind
                begins[slot, column] = begin + quote
                ends[slot, column] = i - quote
        elif mode == REFUSE:
            return first, TOO_MANY_FIELDS
        elif mode == RECORD and unknown_count[0] < len(unknown_begins):
            unknown_begins[unknown_count[0]] = first
            unknown_ends[unknown_count[0]] = last
            unknown_count[0] += 1
        i = skip(data, i, stop)
        if i >= stop:
            return i, CUT_OFF
        if data[i] == 125:
            return i + 1, high
        if data[i] != 44:
            return i, UNEXPECTED
        i = skip(data, i + 1, stop)


@kernel
def split_objects(
    data: Bytes,
    begins: Places,
    ends: Places,
    names: Names,
    mode: int,
    slots: Slots,
    unknown: Unknown,
    kept: Places,
    codes: Bytes,
    places: Places,
) -> int:
    """Split values into slots; returns the number of objects.

    Their slots are side by side; `kept` has their indexes, and `codes` and `places` the error of
    each other value. A negative start means null. Stops early if `unknown` is full; the result is
    invalid then.
    """
    order = np.full(64, -1, np.int32)
    stack = np.empty(MAX_LEVELS, np.uint8)
    good = LONG(0)
    for row in range(len(begins)):
        if len(unknown[0]) and unknown[2][0] >= len(unknown[0]):
            return good
        begin, stop = LONG(begins[row]), LONG(ends[row])
        if begin < 0:
            codes[row] = -NO_VALUE
            continue
        i = skip(data, begin, stop)
        if is_marked(data, i, stop):
            i = skip(data, i + 3, stop)
        if i >= stop:
            codes[row] = -EMPTY
            continue
        if data[i] == 123:
            i, code = _object(data, i, stop, names, mode, good, slots, unknown, order, stack)
        else:
            i, code = value(data, i, stop, stack)
            if code >= 0:
                code = NOT_AN_OBJECT - (code & (HIGH - 1))
        if code >= 0:
            after = skip(data, i, stop)
            if after < stop:
                i, code = after, TRAILING
        if code >= HIGH:
            wrong = not_utf8(data, begin, stop)
            if wrong >= 0:
                i, code = wrong, NOT_UTF8
        if code < 0:
            codes[row] = -code
            places[row] = i - begin
            slots[0][:, good] = MISSING
        else:
            kept[good] = row
            good += 1
    return good


@kernel
def split_nested_objects(
    data: Bytes,
    kinds: Bytes,
    begins: Places,
    ends: Places,
    names: Names,
    mode: int,
    slots: Slots,
    unknown: Unknown,
    refused: Flags,
) -> None:
    """The same for valid JSON; what is not an object leaves its slots empty."""
    order = np.full(64, -1, np.int32)
    stack = np.empty(MAX_LEVELS, np.uint8)
    for row in range(len(kinds)):
        if len(unknown[0]) and unknown[2][0] >= len(unknown[0]):
            return
        if kinds[row] == OBJECT:
            _, code = _object(
                data,
                LONG(begins[row]),
                LONG(ends[row]),
                names,
                mode,
                row,
                slots,
                unknown,
                order,
                stack,
            )
            refused[row] = code < 0


@kernel
def count_items(
    data: Bytes, kinds: Bytes, begins: Places, ends: Places, wanted: int, bounds: Places
) -> int:
    """Count the elements of all arrays (or members of all objects), which are valid JSON.

    `bounds` receives the start of each.
    """
    stack = np.empty(MAX_LEVELS, np.uint8)
    total = LONG(0)
    for row in range(len(kinds)):
        bounds[row] = total
        if kinds[row] == wanted:
            stop = LONG(ends[row])
            i = skip(data, LONG(begins[row]) + 1, stop)
            while i + 1 < stop:  # before the closing bracket
                if wanted != ARRAY:
                    i, _, _ = _member(data, i, stop)
                i, kind = value(data, i, stop, stack)
                if kind < 0:
                    break
                total += 1
                i = skip(data, i, stop)
                if data[i] == 44:
                    i = skip(data, i + 1, stop)
    bounds[len(kinds)] = total
    return total


@kernel
def list_items(
    data: Bytes,
    kinds: Bytes,
    begins: Places,
    ends: Places,
    wanted: int,
    keys: Slots,
    values: Slots,
) -> None:
    """Fill the slots of all elements, or of all keys and values; one row in each of the arrays."""
    stack = np.empty(MAX_LEVELS, np.uint8)
    at = LONG(0)
    for row in range(len(kinds)):
        if kinds[row] != wanted:
            continue
        stop = LONG(ends[row])
        i = skip(data, LONG(begins[row]) + 1, stop)
        while i + 1 < stop:
            if wanted != ARRAY:
                begin = i + 1
                i, last, kind = _member(data, i, stop)
                keys[0][0, at] = kind & (HIGH - 1)
                keys[1][0, at] = begin
                keys[2][0, at] = last
            begin = i
            i, kind = value(data, i, stop, stack)
            if kind < 0:
                break
            kind &= HIGH - 1
            quote = 1 if kind in (STRING, ESCAPED) else 0
            values[0][0, at] = kind
            values[1][0, at] = begin + quote
            values[2][0, at] = i - quote
            at += 1
            i = skip(data, i, stop)
            if data[i] == 44:
                i = skip(data, i + 1, stop)
