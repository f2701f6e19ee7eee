"""Compiled loops for the digest of rows: two sums of hashes, so that the order does not count."""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from sawlog.compiled.numba_cache import helper, kernel
from sawlog.pipeline.sink.sink_rows import HeaderPieces as Headers
from sawlog.pipeline.sink.sink_rows import Pieces

Longs = npt.NDArray[np.int64]

types: Any = numba.types  # numba has partial type annotations

_SOURCES = (__file__,)
_PRIME = 0x100000001B3  # FNV-1a
_MIX_1 = -0x40A7B892E31B1A47  # splitmix64, as signed numbers
_MIX_2 = -0x6B2FB644ECCEEE15
_LOW_37, _LOW_34, _LOW_33 = (1 << 37) - 1, (1 << 34) - 1, (1 << 33) - 1
_NULL = -1
_SEEDS = (-0x340D631B7BDDDCDB, 0x5851F42D4C957F2D)

_LONGS = types.int64[::1]
_DATA = types.Array(types.uint8, 1, "C", readonly=True)
_PIECES = types.Tuple((_LONGS, _DATA, types.boolean[::1]))
_HEADERS = types.Tuple((_LONGS, _PIECES, _PIECES))


@helper
def _mixed(state: int) -> int:
    """The finalizer of splitmix64; arithmetic wraps around at 64 bits."""
    state = (state ^ ((state >> 30) & _LOW_34)) * _MIX_1
    state = (state ^ ((state >> 27) & _LOW_37)) * _MIX_2
    return state ^ ((state >> 31) & _LOW_33)


@helper
def _with_number(state: int, number: int) -> int:
    return _mixed((state ^ number) * _PRIME)


@helper
def _with_piece(state: int, pieces: Pieces, row: int) -> int:
    """Add a field with its length, so that a byte cannot move from one field to the next."""
    starts, data, there = pieces
    if not there[row]:
        return _with_number(state, _NULL)
    first, last = starts[row], starts[row + 1]
    state = _with_number(state, last - first)
    for index in range(first, last):
        state = (state ^ int(data[index])) * _PRIME
    return state


@kernel(types.UniTuple(types.int64, 2)(_PIECES, _PIECES, _PIECES, _HEADERS, _LONGS), _SOURCES)
def digest_sums(
    topics: Pieces, keys: Pieces, values: Pieces, headers: Headers, partitions: Longs
) -> tuple[int, int]:
    """The sums of two independent hashes of all rows, modulo 2^64."""
    lists, names, contents = headers
    first_sum = 0
    second_sum = 0
    for row in range(len(partitions)):
        for seed in range(2):
            state = _with_number(_SEEDS[seed], partitions[row])
            state = _with_piece(state, topics, row)
            state = _with_piece(state, keys, row)
            state = _with_piece(state, values, row)
            state = _with_number(state, lists[row + 1] - lists[row])
            for header in range(lists[row], lists[row + 1]):
                state = _with_piece(state, names, header)
                state = _with_piece(state, contents, header)
            state = _mixed(state)
            if seed == 0:
                first_sum += state
            else:
                second_sum += state
    return first_sum, second_sum
