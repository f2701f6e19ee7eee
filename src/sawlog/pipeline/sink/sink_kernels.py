"""Compiled loops that encode rows as records and choose partitions by key.

The bytes of a row are copied once, without Python objects. The space in `out` is checked before
each record.
"""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from sawlog.compiled.numba_cache import helper, kernel
from sawlog.pipeline.sink.sink_rows import HeaderPieces as Headers
from sawlog.pipeline.sink.sink_rows import Pieces

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

types: Any = numba.types  # numba has partial type annotations

_SOURCES = (__file__,)
_SEED = 0x9747B28C
_M = 0x5BD1E995
_WORD = 0xFFFFFFFF
_NO_PARTITION = -1

_LONGS = types.int64[::1]
_OUT = types.uint8[::1]
_DATA = types.Array(types.uint8, 1, "C", readonly=True)
_PIECES = types.Tuple((_LONGS, _DATA, types.boolean[::1]))
_HEADERS = types.Tuple((_LONGS, _PIECES, _PIECES))


@helper
def _number_size(number: int) -> int:
    """The size of a non-negative zigzag varint."""
    rest = number << 1
    size = 1
    while rest > 127:
        rest >>= 7
        size += 1
    return size


@helper
def _put_number(out: Bytes, position: int, number: int) -> int:
    rest = number << 1
    while rest > 127:
        out[position] = (rest & 127) | 128
        rest >>= 7
        position += 1
    out[position] = rest
    return position + 1


@helper
def _piece_size(pieces: Pieces, row: int) -> int:
    """The size of a field with its length; null is the length -1 in one byte."""
    starts, _, there = pieces
    if not there[row]:
        return 1
    length: int = starts[row + 1] - starts[row]
    return _number_size(length) + length


@helper
def _put_piece(out: Bytes, position: int, pieces: Pieces, row: int) -> int:
    starts, data, there = pieces
    if not there[row]:
        out[position] = 1
        return position + 1
    first = starts[row]
    length: int = starts[row + 1] - first
    position = _put_number(out, position, length)
    for index in range(length):
        out[position + index] = data[first + index]
    return position + length


@helper
def _content_size(keys: Pieces, values: Pieces, headers: Headers, row: int) -> int:
    """The size of a record without its length and offset delta."""
    lists, names, contents = headers
    first, last = lists[row], lists[row + 1]
    size = 2 + _piece_size(keys, row) + _piece_size(values, row) + _number_size(last - first)
    for header in range(first, last):
        size += _piece_size(names, header) + _piece_size(contents, header)
    return size


@kernel(_LONGS(_PIECES, _PIECES, _HEADERS), _SOURCES)
def record_sizes(keys: Pieces, values: Pieces, headers: Headers) -> Longs:
    """The approximate record size of each row, to split rows into batches."""
    count = len(keys[2])
    sizes = np.empty(count, np.int64)
    for row in range(count):
        sizes[row] = _content_size(keys, values, headers, row) + 4
    return sizes


@kernel(
    types.UniTuple(types.int64, 3)(
        _PIECES, _PIECES, _HEADERS, _LONGS, types.int64, _OUT, types.int64
    ),
    _SOURCES,
)
def encode_records(
    keys: Pieces, values: Pieces, headers: Headers, rows: Longs, first: int, out: Bytes,
    wanted_bytes: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Encode rows[first], rows[first + 1] and so on into `out` as the records of one batch.

    Stops at the last row, before a record that would exceed `wanted_bytes` (the first record may),
    or before one that does not fit. Returns the index of the next row, the bytes written, and the
    space that the next record needs if there was too little.
    """
    position = 0
    index = first
    while index < len(rows):
        row = rows[index]
        size = _content_size(keys, values, headers, row) + _number_size(index - first)
        room = size + _number_size(size)
        if index > first and position + room > wanted_bytes:
            break
        if position + room > len(out):
            return index, position, room
        position = _put_number(out, position, size)
        out[position] = 0  # attributes, unused
        out[position + 1] = 0  # all records of a batch have the same timestamp
        position = _put_number(out, position + 2, index - first)
        position = _put_piece(out, position, keys, row)
        position = _put_piece(out, position, values, row)
        lists, names, contents = headers
        position = _put_number(out, position, lists[row + 1] - lists[row])
        for header in range(lists[row], lists[row + 1]):
            position = _put_piece(out, position, names, header)
            position = _put_piece(out, position, contents, header)
        index += 1
    return index, position, 0


@helper
def _murmur2(data: Bytes, first: int, length: int) -> int:
    """The hash of `client.partitioner`, on 64 bits that are cut to 32."""
    result = (_SEED ^ length) & _WORD
    whole = length & ~3
    for at in range(first, first + whole, 4):
        k = (
            int(data[at])
            | int(data[at + 1]) << 8
            | int(data[at + 2]) << 16
            | int(data[at + 3]) << 24
        )
        k = (k * _M) & _WORD
        k = ((k ^ (k >> 24)) * _M) & _WORD
        result = ((result * _M) & _WORD) ^ k
    if whole != length:
        tail = 0
        for at in range(length - whole):
            tail |= int(data[first + whole + at]) << (8 * at)
        result = ((result ^ tail) * _M) & _WORD
    result = ((result ^ (result >> 13)) * _M) & _WORD
    return result ^ (result >> 15)


@kernel(
    types.UniTuple(types.int64, 2)(
        _PIECES, _LONGS, _LONGS, _LONGS, types.int64, types.UniTuple(types.int64, 2), types.int64
    ),
    _SOURCES,
)
def choose_partitions(
    keys: Pieces, sizes: Longs, rows: Longs, chosen: Longs, partition_count: int,
    sticky: tuple[int, int], batch_bytes: int,
) -> tuple[int, int]:  # fmt: skip
    """Choose the partition of each row that has none: by key, else the sticky partition.

    `sticky` is (partition, bytes it got); it moves on when a batch is full.
    """
    starts, data, there = keys
    partition, filled = sticky
    for index in range(len(rows)):
        row = rows[index]
        if chosen[index] != _NO_PARTITION:
            continue
        if there[row]:
            code = _murmur2(data, starts[row], starts[row + 1] - starts[row])
            chosen[index] = (code & 0x7FFFFFFF) % partition_count
            continue
        if filled > 0 and filled + sizes[row] > batch_bytes:
            partition += 1
            filled = 0
        partition %= partition_count
        chosen[index] = partition
        filled += sizes[row]
    return partition, filled
