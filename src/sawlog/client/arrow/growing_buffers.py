"""Buffers of Arrow's memory pool that grow while written and become columns without a copy."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SMALLEST_ENTRIES = 64
_SMALL_ENTRIES = 1 << 16


def next_capacity(entries: int) -> int:
    """Small buffers grow faster, since a record batch is decoded again after each growth."""
    return entries * (4 if entries < _SMALL_ENTRIES else 2)


class GrowingBuffer:
    """A growing array of numbers; `array` is replaced by each growth."""

    __slots__ = ("_buffer", "_dtype", "array")

    def __init__(self, dtype: type[np.generic], more: int = 0) -> None:
        self._dtype = np.dtype(dtype)
        self._allocate(_SMALLEST_ENTRIES + more)

    def _allocate(self, entries: int) -> None:
        self._buffer = pa.allocate_buffer(entries * self._dtype.itemsize)
        self.array: npt.NDArray[Any] = np.frombuffer(self._buffer, self._dtype)

    def reserve(self, used: int, entries: int) -> None:
        """Make room for `entries` in total; the first `used` are kept."""
        if entries > len(self.array):
            old = self.array
            self._allocate(entries)
            self.array[:used] = old[:used]

    def grow(self, used: int) -> None:
        self.reserve(used, next_capacity(len(self.array)))

    def finish(self, used: int) -> pa.Buffer:
        """Return the used part, copied if more than a quarter of the buffer is unused."""
        size = used * self._dtype.itemsize
        if size * 4 < self._buffer.size * 3:
            exact = pa.allocate_buffer(size)
            memoryview(exact)[:] = memoryview(self._buffer)[:size]
            return exact
        return self._buffer.slice(0, size)


class BinaryBuffer:
    """A binary column: the end of each entry, all bytes, and whether each is not null."""

    __slots__ = ("_data", "_ends", "_valid")

    def __init__(self) -> None:
        self._ends = GrowingBuffer(np.int32, more=1)  # Arrow's offsets start with 0
        self._data = GrowingBuffer(np.uint8)
        self._valid = GrowingBuffer(np.uint8)
        self._ends.array[0] = 0

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        return self._ends.array, self._data.array, self._valid.array

    def reserve(self, used: int, entries: int, used_bytes: int, size: int) -> None:
        self._ends.reserve(used + 1, entries + 1)
        self._valid.reserve(used, entries)
        self._data.reserve(used_bytes, size)

    def grow_bytes(self, used_bytes: int) -> None:
        self._data.grow(used_bytes)

    def finish(self, used: int, used_bytes: int, kind: pa.DataType) -> pa.Array:
        valid = self._valid.array[:used]
        nulls = used - int(np.count_nonzero(valid))
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
        buffers = [bitmap, self._ends.finish(used + 1), self._data.finish(used_bytes)]
        return pa.Array.from_buffers(kind, used, buffers, null_count=nulls)
