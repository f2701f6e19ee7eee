"""The kernel that decodes record batches into columns, compiled by numba.

Compiled code does no bounds checks, so every read is checked against the end of the body and every
write against the capacity of its column. A batch counts only once it was decoded to its end.
"""

import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from sawlog.client.arrow import kernel_codes
from sawlog.client.arrow.kernel_codes import DONE, ColumnFlag, Corrupt, OutOfRoom, Total
from sawlog.compiled.numba_cache import helper, kernel

Bytes = npt.NDArray[np.uint8]
Ends = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Column = tuple[Ends, Bytes, Bytes]
"""The end of each entry (the first starts at 0), all bytes, and 1 for entries that are not null."""
Numbers = tuple[int, int, int, int, int, int, int, int, int, int]
"""Start and end of the body; the batch's count, base offset, last offset delta, base timestamp and
append time; the offset range wanted; the ColumnFlags."""
Times = tuple[Longs, Longs]
Headers = tuple[Ends, Column, Column]

types: Any = numba.types  # partly untyped

_DONE = DONE
_ROWS, _KEYS, _VALUES = int(OutOfRoom.ROWS), int(OutOfRoom.KEYS), int(OutOfRoom.VALUES)
_HEADERS, _NAMES, _CONTENTS = int(OutOfRoom.HEADERS), int(OutOfRoom.NAMES), int(OutOfRoom.CONTENTS)
_LENGTHS, _OFFSETS, _REST = int(Corrupt.LENGTHS), int(Corrupt.OFFSETS), int(Corrupt.REST)
_WANT_KEYS, _WANT_VALUES = int(ColumnFlag.KEYS), int(ColumnFlag.VALUES)
_WANT_HEADERS, _WANT_APPEND_TIME = int(ColumnFlag.HEADERS), int(ColumnFlag.APPEND_TIME)
_ROW_COUNT, _KEY_BYTES, _VALUE_BYTES = int(Total.ROWS), int(Total.KEYS), int(Total.VALUES)
_HEADER_COUNT, _NAME_BYTES = int(Total.HEADERS), int(Total.NAMES)
_CONTENT_BYTES = int(Total.CONTENTS)
_POSITIVE = 0x7FFF_FFFF_FFFF_FFFF
_LAST_SHIFT = 63  # of the tenth byte, the last of a 64-bit varint
_SMALLEST_HEADER_BYTES = 2


@helper
def _varint(body: Bytes, position: int, end: int) -> tuple[int, int]:
    """Return a number and the position after it; -1 if it is malformed or `position` was -1."""
    if position < 0 or position >= end:
        return 0, -1
    byte: Any = np.int64(body[position])
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while shift <= _LAST_SHIFT and position < end:
        byte = np.int64(body[position])
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & _POSITIVE) ^ -(value & 1), position
        shift += 7
    return 0, -1


@helper
def _bytes(body: Bytes, position: int, end: int) -> tuple[int, int, int]:
    """Return length (-1: null) and start of some bytes, and the position after them or -1."""
    length, start = _varint(body, position, end)
    if start < 0 or length < -1 or length > end - start:
        return 0, 0, -1
    return length, start, start + max(length, 0)


@helper
def _room(column: Column) -> int:
    """Return the capacity of a column in entries."""
    ends, _, valid = column
    return min(len(ends) - 1, len(valid))


@helper
def _row_room(want: int, times: Times, keys: Column, values: Column, header_ends: Ends) -> int:
    """Return the smallest capacity of the wanted columns in rows."""
    room = min(len(times[0]), len(times[1]))
    if want & _WANT_KEYS:
        room = min(room, _room(keys))
    if want & _WANT_VALUES:
        room = min(room, _room(values))
    if want & _WANT_HEADERS:
        room = min(room, len(header_ends) - 1)
    return room


@helper
def _put(body: Bytes, start: int, length: int, index: int, used: int, column: Column) -> int:
    """Append an entry to a column; returns the bytes used, or -1 without room."""
    ends, data, valid = column
    if length > len(data) - used:
        return -1
    # Unsigned, or numba would check each index for being negative.
    source, target = np.uint64(start), np.uint64(used)
    for step in range(np.uint64(max(length, 0))):
        data[target + step] = body[source + step]
    valid[index] = length >= 0
    used += max(length, 0)
    ends[index + 1] = used
    return used


@helper
def _headers(
    body: Bytes, position: int, end: int, count: int, totals: Longs, names: Column, contents: Column
) -> tuple[int, int]:
    """Append headers; returns the position after them (-1: malformed) and an OutOfRoom code."""
    index = totals[_HEADER_COUNT]
    room = min(_room(names), _room(contents))
    for _ in range(count):
        name_length, name_start, position = _bytes(body, position, end)
        length, start, position = _bytes(body, position, end)
        if position < 0 or name_length < 0:
            return -1, _DONE
        if index >= room:
            return position, _HEADERS
        name_bytes = _put(body, name_start, name_length, index, totals[_NAME_BYTES], names)
        if name_bytes < 0:
            return position, _NAMES
        content_bytes = _put(body, start, length, index, totals[_CONTENT_BYTES], contents)
        if content_bytes < 0:
            return position, _CONTENTS
        totals[_NAME_BYTES], totals[_CONTENT_BYTES] = name_bytes, content_bytes
        index += 1
    totals[_HEADER_COUNT] = index
    return position, _DONE


@helper
def _skip_headers(body: Bytes, position: int, end: int, count: int) -> int:
    for _ in range(count):
        name_length, _, position = _bytes(body, position, end)
        _, _, position = _bytes(body, position, end)
        if position < 0 or name_length < 0:
            return -1
    return position


@helper
def _set(target: Longs, source: Longs) -> None:
    """As `target[:] = source`, which takes numba ten times longer to compile."""
    for index in range(len(source)):
        target[index] = source[index]


@helper
def _record(
    body: Bytes, position: int, end: int
) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Decode a record without its headers.

    Returns its end, timestamp delta, offset delta, length and start of key and of value, number of
    headers, and the position of the headers, which is -1 if the record is malformed.
    """
    length, position = _varint(body, position, end)
    if position < 0 or length < 0 or length > end - position:
        return 0, 0, 0, 0, 0, 0, 0, 0, -1
    stop = position + length
    # Skips the attributes byte, which is unused.
    elapsed, position = _varint(body, position + 1, stop)
    delta, position = _varint(body, position, stop)
    key_length, key_start, position = _bytes(body, position, stop)
    length, start, position = _bytes(body, position, stop)
    header_count, position = _varint(body, position, stop)
    if header_count < 0 or header_count > (stop - position) // _SMALLEST_HEADER_BYTES:
        position = -1
    return stop, elapsed, delta, key_length, key_start, length, start, header_count, position


def _append(
    body: Bytes, numbers: Numbers, times: Times, keys: Column, values: Column, headers: Headers,
    totals: Longs, now: Longs,
) -> int:  # fmt: skip
    """Append the records of one batch; returns DONE, or a code of OutOfRoom or Corrupt.

    `totals` changes with DONE only; `now` has the same size and is for intermediate values.
    """
    position, end, count, base_offset, last_delta, base_time, append_time, low, high, want = numbers
    offsets, timestamps = times
    header_ends, names, contents = headers
    _set(now, totals)
    row, key_bytes, value_bytes = totals[_ROW_COUNT], totals[_KEY_BYTES], totals[_VALUE_BYTES]
    room = _row_room(want, times, keys, values, header_ends)
    previous = -1
    for _ in range(count):
        record = _record(body, position, end)
        stop, elapsed, delta, key_length, key_start, length, start, header_count, position = record
        if position < 0:
            return _LENGTHS
        if delta <= previous or delta > last_delta:
            return _OFFSETS
        previous = delta
        is_wanted = low <= base_offset + delta < high
        if is_wanted and row >= room:
            return _ROWS
        if header_count and is_wanted and want & _WANT_HEADERS:
            position, lacking = _headers(body, position, stop, header_count, now, names, contents)
            if lacking:
                return lacking
        elif header_count:
            position = _skip_headers(body, position, stop, header_count)
        if position != stop:
            return _LENGTHS
        if not is_wanted:
            continue
        if want & _WANT_HEADERS:
            header_ends[row + 1] = now[_HEADER_COUNT]
        if want & _WANT_KEYS:
            key_bytes = _put(body, key_start, key_length, row, key_bytes, keys)
            if key_bytes < 0:
                return _KEYS
        if want & _WANT_VALUES:
            value_bytes = _put(body, start, length, row, value_bytes, values)
            if value_bytes < 0:
                return _VALUES
        offsets[row] = base_offset + delta
        timestamps[row] = append_time if want & _WANT_APPEND_TIME else base_time + elapsed
        row += 1
    if position != end:
        return _REST
    now[_ROW_COUNT], now[_KEY_BYTES], now[_VALUE_BYTES] = row, key_bytes, value_bytes
    _set(totals, now)
    return _DONE


_BODY = types.Array(types.uint8, 1, "C", readonly=True)
_ENDS = types.int32[::1]
_LONGS = types.int64[::1]
_COLUMN = types.Tuple((_ENDS, types.uint8[::1], types.uint8[::1]))
_SIGNATURE = types.int64(
    _BODY,
    types.UniTuple(types.int64, 10),
    types.UniTuple(_LONGS, 2),
    _COLUMN,
    _COLUMN,
    types.Tuple((_ENDS, _COLUMN, _COLUMN)),
    _LONGS,
    _LONGS,
)

_began_s = time.perf_counter()
append: Callable[..., int] = kernel(_SIGNATURE, (__file__, kernel_codes.__file__))(_append)
COMPILED_IN_S = time.perf_counter() - _began_s
"""About a tenth of it if the code was in the cache."""
