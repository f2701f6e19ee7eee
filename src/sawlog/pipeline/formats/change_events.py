"""The form of Debezium's change events in which all formats are unwrapped."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sawlog.pipeline.formats.decoded import Decoded
from sawlog.pipeline.formats.key_json import BadKey, key_json

OP, BEFORE, AFTER = "op", "before", "after"
EVENT = pa.schema([pa.field(name, pa.string()) for name in (OP, BEFORE, AFTER)])
"""`before` and `after` are JSON: whole rows or, of values with schemas, their key columns."""

NO_ROW = f"not a change event of Debezium: no row in its field {AFTER}"


Keys = Mapping[int, Mapping[str, Any]]
"""The key columns of the rows that events have, by the place of the event; {} if they are bad."""


def decoded_events(
    ops: Sequence[str | None], before: Keys, after: Keys, bad: Mapping[int, str]
) -> Decoded:
    """The events of the payloads that are not `bad`; places count these only."""
    columns = [pa.array(ops, pa.string()), _texts(before, len(ops)), _texts(after, len(ops))]
    return Decoded(pa.RecordBatch.from_arrays(columns, schema=EVENT), bad)


def _texts(keys: Keys, count: int) -> pa.Array:
    texts: list[bytes | None] = [None] * count
    for place, row in keys.items():
        try:
            texts[place] = key_json(row)
        except BadKey:
            texts[place] = b"{}"
    return pa.array(texts, pa.binary()).cast(pa.string())
