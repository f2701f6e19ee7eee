"""Debezium's change events, with fields `before`, `after` and `op`, unwrapped.

An event is the value, or `payload` of it in JSON with a schema. `op` is `c` (create), `r` (read by
a snapshot) or `u` (update), for which `after` is the row; `d` (delete); `t` (truncate); or `m` (a
message, which is no change). The order of events is that of their offsets, so `ts_ms` is not
needed.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.formats import parser, parser_input
from sawlog.pipeline.formats.change_events import AFTER, BEFORE, EVENT, OP
from sawlog.pipeline.formats.parsed import BadRow, ColumnRules, Format, Parsed, Parser

UPSERTS = ("c", "r", "u")
DELETE = "d"
TRUNCATE = "t"
_PAYLOAD = "payload"
_ENVELOPE = pa.schema([*EVENT, pa.field(_PAYLOAD, pa.struct(list(EVENT)))])


class Events(NamedTuple):
    """The events of the good values; `kept` are their indexes.

    `before` and `after` are JSON: in JSON whole rows, to be parsed as the values of other tables
    are. In Avro and Protobuf, whose schemas are in a registry, they are the key columns of rows,
    and the row `after` is parsed from the value.
    """

    kept: pa.Array
    op: pa.Array
    before: pa.Array
    after: pa.Array
    bad: list[BadRow]


class DebeziumEnvelope:
    """`keys` are the columns of values that identify a row."""

    def __init__(self, format_: Format, keys: Sequence[str]) -> None:
        self._format = format_
        self.has_rows_as_json = format_.kind == "json"
        self._parse = self._parser(keys)

    def _parser(self, keys: Sequence[str]) -> Parser:
        if self.has_rows_as_json:
            return parser(Format("json", self._format.options), _ENVELOPE, infer=False)
        from sawlog.pipeline.formats.registry_format import RegistryParser, event_decoder

        rules = ColumnRules(EVENT, infer=False)
        return RegistryParser(self._format, rules, partial(event_decoder, keys=tuple(keys)))

    def unwrap(self, records: pa.RecordBatch) -> Events:
        """The events of records whose values are not null."""
        kept: list[pa.Array] = []
        events: list[pa.RecordBatch] = []
        bad: list[BadRow] = []
        start = 0
        for part in self._parse(parser_input(self._format, records)):
            indexes = pa.array(np.arange(part.values)) if part.kept is None else part.kept
            kept.append(pc.add(indexes.cast(pa.int64()), start))
            bad += [BadRow(start + row, reason) for row, reason in part.bad]
            events.append(_without_payload(part))
            start += part.values
        op, before, after = (
            pa.concat_arrays([part.column(name) for part in events]) for name in (OP, BEFORE, AFTER)
        )
        return Events(pa.concat_arrays(kept), op, before, after, bad)


def _without_payload(part: Parsed) -> pa.RecordBatch:
    """The events; those in a payload are taken out of it."""
    rows = part.rows
    if _PAYLOAD not in rows.schema.names:
        return rows
    payloads = rows.column(_PAYLOAD)
    has_payload = pc.and_(pc.is_null(rows.column(OP)), pc.is_valid(payloads))
    columns = [
        pc.if_else(has_payload, pc.struct_field(payloads, name), rows.column(name))
        for name in EVENT.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=EVENT)
