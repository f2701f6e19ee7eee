"""Input rows of the sink: required columns, and their buffers for the compiled loops.

Strings and bytes are not copied here: they stay in Arrow's buffers with their offsets.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.sink.sink_errors import BadRows

_TEXT_OR_BYTES = ("string", "binary")
_TYPES = {
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
}
NO_PARTITION = -1
_NO_BYTES = np.frombuffer(bytes(1), np.uint8)

Numbers = npt.NDArray[np.int64]
Content = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Pieces = tuple[Numbers, Content, Flags]
"""One string or bytes value per row: content[starts[row]:starts[row + 1]] if its flag is set. A
plain tuple, because compiled code takes it.
"""
HeaderPieces = tuple[Numbers, Pieces, Pieces]
"""Row r has the headers starts[r] to starts[r + 1] of the names and of the values."""


def check_columns(types: Mapping[str, str], *, has_topic: bool) -> None:
    """Check the columns by their Spark types. Raises BadRows.

    Columns that a record does not have are ignored, as in Spark's connector.
    """
    for name, kind in types.items():
        if name in _TYPES and kind not in _TYPES[name]:
            raise BadRows(f"the column {name!r} is {kind}; it must be {' or '.join(_TYPES[name])}")
    if "value" not in types:
        raise BadRows(
            f"there is no column 'value', which every record needs; there are {', '.join(types)}"
        )
    if "topic" not in types and not has_topic:
        raise BadRows("no topic to write to: set the option 'topic' or add a column 'topic'")


def pieces_of(array: pa.Array | None, count: int) -> Pieces:
    """The buffers of a string or binary column; None means null in every row."""
    if array is None:
        return np.zeros(count + 1, np.int64), _NO_BYTES, np.zeros(count, np.bool_)
    is_large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    if not (is_large or pa.types.is_binary(array.type) or pa.types.is_string(array.type)):
        array, is_large = array.cast(pa.large_binary()), True
    _, offsets, data = array.buffers()
    width = np.int64 if is_large else np.int32
    first, count = array.offset, len(array)
    if count == 0:
        return np.zeros(1, np.int64), _NO_BYTES, np.zeros(0, np.bool_)
    starts = np.frombuffer(offsets, width)[first : first + count + 1].astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else _NO_BYTES
    return starts, content, _there(array)


def headers_of(array: pa.Array | None, count: int) -> HeaderPieces:
    """The buffers of a headers column. Raises BadRows for a header without a name."""
    if array is None or len(array) == 0:
        return np.zeros(count + 1, np.int64), pieces_of(None, 0), pieces_of(None, 0)
    lists = array.cast(pa.large_list(array.type.value_type))
    offsets = np.frombuffer(lists.buffers()[1], np.int64)
    starts = offsets[lists.offset : lists.offset + count + 1].copy()
    there = _there(lists)
    structs = lists.values
    names, contents = structs.field(0), structs.field(1)
    if array.null_count:  # a null list may still have an extent
        lengths = np.where(there, np.diff(starts), 0)
        lists = pa.LargeListArray.from_arrays(
            np.concatenate([[0], np.cumsum(lengths)]), lists.flatten()
        )
        return headers_of(lists, count)
    used = names.slice(int(starts[0]), int(starts[-1] - starts[0]))
    if used.null_count or structs.slice(int(starts[0]), len(used)).null_count:
        raise BadRows("the column 'headers' has a header without a key")
    total = len(names)
    return starts, pieces_of(names, total), pieces_of(contents, total)


def chosen_partitions(column: pa.Array | None, count: int) -> Numbers:
    """The partition of each row, NO_PARTITION where it has none. Raises BadRows."""
    if column is None:
        return np.full(count, NO_PARTITION, np.int64)
    if column.null_count < count and (pc.min(column).as_py() or 0) < 0:
        raise BadRows(f"the column 'partition' says {pc.min(column).as_py()}, which none has")
    filled = pc.fill_null(column.cast(pa.int64()), NO_PARTITION)
    return np.array(filled.to_numpy(zero_copy_only=False), np.int64)


def _there(array: pa.Array) -> Flags:
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    found: Flags = array.is_valid().to_numpy(zero_copy_only=False)
    return found
