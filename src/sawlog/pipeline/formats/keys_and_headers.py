"""Keys of records as text, and headers as a map, for tables that have such columns."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sawlog.pipeline.formats.casts import cast_texts
from sawlog.pipeline.formats.json_slots import last_per_owner
from sawlog.pipeline.formats.parsed import BadRow, Parsed

_EXCERPT = 20


class KeySplit(NamedTuple):
    """The records whose keys fit the key column, and the others, each a bad row."""

    good: pa.RecordBatch
    refused: pa.RecordBatch
    parsed: Parsed  # of the refused ones


def split_by_key(chunk: pa.RecordBatch) -> KeySplit:
    """Take records out whose key is not UTF-8; of the good ones the key is text."""
    texts, is_bad = cast_texts(chunk.column("key"), pa.string())
    place = chunk.schema.get_field_index("key")
    good = chunk.set_column(place, pa.field("key", pa.string()), texts)
    refused = chunk.slice(0, 0)
    if is_bad.any():
        good, refused = good.filter(pa.array(~is_bad)), chunk.filter(pa.array(is_bad))
    reasons = [
        BadRow(row, f"the key is not UTF-8: {_first_bytes(key)}")
        for row, key in enumerate(refused.column("key").to_pylist())
    ]
    rows = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    return KeySplit(good, refused, Parsed(rows, pa.array([], pa.int64()), reasons))


def _first_bytes(key: bytes) -> str:
    return key[:_EXCERPT].hex(" ") + (" …" if len(key) > _EXCERPT else "")


def header_map(headers: pa.Array) -> pa.Array:
    """The headers by key; of several with one key the last one, as Kafka's `lastHeader`."""
    owners = np.repeat(np.arange(len(headers)), np.asarray(headers.value_lengths().fill_null(0)))
    entries = headers.flatten()
    last = last_per_owner(owners, entries.field("key"))
    bounds = np.searchsorted(owners[last], np.arange(len(headers) + 1)).astype(np.int32)
    entries = entries.take(pa.array(last))
    return pa.MapArray.from_arrays(pa.array(bounds), entries.field("key"), entries.field("value"))
