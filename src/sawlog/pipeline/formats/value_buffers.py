"""Values in the form that the compiled loops read."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sawlog.pipeline.formats.compiled import Bytes, Places


class Values(NamedTuple):
    """The positions of values in their buffer; a negative start means null."""

    data: Bytes
    begins: Places
    ends: Places

    def first(self, count: int) -> "Values":
        return self._replace(begins=self.begins[:count], ends=self.ends[:count])

    def after(self, count: int) -> "Values":
        return self._replace(begins=self.begins[count:], ends=self.ends[count:])

    def among(self, numbers: npt.NDArray[np.int64]) -> "Values":
        """The values with these indexes."""
        return self._replace(begins=self.begins[numbers], ends=self.ends[numbers])


def values_of(array: pa.Array) -> Values:
    """Wrap the array's own memory; only the positions are copied."""
    if not (pa.types.is_binary(array.type) or pa.types.is_string(array.type)):
        array = array.cast(pa.binary())
    _, bounds, data = array.buffers()
    count = len(array)
    bytes_ = np.frombuffer(data if data is not None else b"", np.uint8)
    bytes_.setflags(write=False)  # writable memory is another type to compiled code
    if bounds is None or not count:
        return Values(bytes_, np.zeros(0, np.int32), np.zeros(0, np.int32))
    places = np.frombuffer(bounds, np.int32, count + 1, array.offset * 4)
    begins, ends = places[:-1].copy(), places[1:].copy()
    if array.null_count:
        begins[np.asarray(array.is_null())] = -1
    return Values(bytes_, begins, ends)
