"""Slots as numpy arrays for the compiled loops, and Arrow arrays from numpy."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.formats import json_grammar as grammar
from sawlog.pipeline.formats import json_kernels
from sawlog.pipeline.formats.compiled import Bytes, Flags, Places

Longs = npt.NDArray[np.int64]
_MAX_UNKNOWN = 4_096


class Slots(NamedTuple):
    """The slots of one column."""

    kinds: Bytes
    begins: Places
    ends: Places
    rows: Longs | None = None
    """The row of each slot; None if slots and rows are the same."""

    def are(self, *kinds: int) -> Flags:
        table = np.zeros(grammar.KINDS, np.bool_)
        table[list(kinds)] = True
        return table[self.kinds]

    def lengths(self, wanted: Flags) -> Longs:
        return (self.ends[wanted] - self.begins[wanted]).astype(np.int64)


def empty_slots(slots: int, objects: int) -> json_kernels.Slots:
    shape = (slots, objects)
    return np.zeros(shape, np.uint8), np.empty(shape, np.int32), np.empty(shape, np.int32)


def empty_unknown() -> json_kernels.Unknown:
    """Empty arrays for unknown keys."""
    return np.empty(_MAX_UNKNOWN, np.int32), np.empty(_MAX_UNKNOWN, np.int32), np.zeros(1, int)


def texts_of(data: Bytes, unknown: json_kernels.Unknown) -> list[bytes]:
    """The distinct keys in order of appearance."""
    begins, ends, count = unknown
    texts = (data[begins[at] : ends[at]].tobytes() for at in range(count[0]))
    return list(dict.fromkeys(texts))


def places_of(flags: Flags) -> list[int]:
    found: list[int] = np.flatnonzero(flags).tolist()
    return found


def validity(valid: Flags) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def array_of(type_: pa.DataType, valid: Flags, values: npt.NDArray[Any]) -> pa.Array:
    """An Arrow array over numpy values, null where not valid."""
    return pa.Array.from_buffers(type_, len(valid), [validity(valid), pa.py_buffer(values)])


def last_per_owner(owners: Longs, keys: pa.Array) -> Longs:
    """The positions of the last occurrence of each key per owner, ascending."""
    codes = keys.dictionary_encode()
    numbers = np.asarray(pc.fill_null(codes.indices, -1)).astype(np.int64)
    pairs = owners * (len(codes.dictionary) + 1) + numbers
    _, last = np.unique(pairs[::-1], return_index=True)
    return np.sort(len(pairs) - 1 - last)
