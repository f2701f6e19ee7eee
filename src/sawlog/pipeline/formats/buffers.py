"""Values as the compiled loops read them, and the results of several goes as one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sawlog.pipeline.formats.compiled import Bytes, Places
from sawlog.pipeline.formats.outcome import BadRow, Parsed


class Values(NamedTuple):
    """Where values lie in their buffer; a begin below zero is no value."""

    data: Bytes
    begins: Places
    ends: Places


def values_of(array: pa.Array) -> Values:
    """Looks at the array's own memory: nothing is copied but the places."""
    if not (pa.types.is_binary(array.type) or pa.types.is_string(array.type)):
        array = array.cast(pa.binary())
    _, bounds, data = array.buffers()
    count = len(array)
    bytes_ = np.frombuffer(data if data is not None else b"", np.uint8)
    bytes_.setflags(write=False)  # memory that may be written is another type to compiled code
    if bounds is None or not count:
        return Values(bytes_, np.zeros(0, np.int32), np.zeros(0, np.int32))
    places = np.frombuffer(bounds, np.int32, count + 1, array.offset * 4)
    begins, ends = places[:-1].copy(), places[1:].copy()
    if array.null_count:
        begins[np.asarray(array.is_null())] = -1
    return Values(bytes_, begins, ends)


def joined(parts: Sequence[Parsed], count: int) -> Parsed:
    """The results of consecutive values as one; a column that some parts lack is null there."""
    if len(parts) == 1:
        return parts[0]
    tables = [pa.Table.from_batches([part.rows]) for part in parts]
    rows = pa.concat_tables(tables, promote_options="default").combine_chunks()
    batches = rows.to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)
    bad: list[BadRow] = [row for part in parts for row in part.bad]
    if not bad:
        return Parsed(batch, None, bad)
    is_good = np.ones(count, np.bool_)
    is_good[[row.row for row in bad]] = False
    return Parsed(batch, pa.array(np.flatnonzero(is_good)), bad)
