"""Debezium's change events: JSON objects with `before`, `after` and `op`, unwrapped.

An event is the value itself, or `payload` of it where the converter adds a schema. `before` and
`after` are rows as JSON text, to be parsed as the values of other tables are. `op` is `c` (create),
`r` (read by a snapshot) or `u` (update), for which `after` is the row; `d` (delete); `t`
(truncate); or `m` (a message, which is no change). The order of events is that of their offsets,
so `ts_ms` is not needed.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.formats import parser
from sawlog.pipeline.formats.parsed import BadRow, Format

UPSERTS = ("c", "r", "u")
DELETE = "d"
TRUNCATE = "t"
_EVENT = [pa.field(name, pa.string()) for name in ("op", "before", "after")]
_ENVELOPE = pa.schema([*_EVENT, pa.field("payload", pa.struct(_EVENT))])


class Events(NamedTuple):
    """The events of the good values; `kept` are their indexes."""

    kept: pa.Array
    op: pa.Array
    before: pa.Array
    after: pa.Array
    bad: list[BadRow]


class DebeziumEnvelope:
    def __init__(self) -> None:
        self._parse = parser(Format("json"), _ENVELOPE, infer=False)

    def unwrap(self, values: pa.Array) -> Events:
        """The events of values that are not null."""
        columns: dict[str, list[pa.Array]] = {field.name: [] for field in _EVENT}
        kept: list[pa.Array] = []
        bad: list[BadRow] = []
        start = 0
        for part in self._parse(values):
            rows = part.rows
            indexes = pa.array(np.arange(part.values)) if part.kept is None else part.kept
            kept.append(pc.add(indexes.cast(pa.int64()), start))
            bad += [BadRow(start + row, reason) for row, reason in part.bad]
            has_payload = pc.and_(
                pc.is_null(rows.column("op")), pc.is_valid(rows.column("payload"))
            )
            for name, parts in columns.items():
                inner = pc.struct_field(rows.column("payload"), name)
                parts.append(pc.if_else(has_payload, inner, rows.column(name)))
            start += part.values
        op, before, after = (pa.concat_arrays(parts) for parts in columns.values())
        return Events(pa.concat_arrays(kept), op, before, after, bad)
