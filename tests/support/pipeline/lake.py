"""A table with everything in it: all types, nulls, odd partitions, a column added later, a
compaction and a checkpoint; and its rows as Python values.
"""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sawlog.pipeline.delta.compaction import compact
from sawlog.pipeline.delta.delta_types import TIMESTAMP
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import AnyPath
from support.pipeline.tables import PIPELINE, at, written

KINDS = {
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "country": pa.string(),
    "int": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "flag": pa.bool_(),
    "bytes": pa.binary(),
    "day": pa.date32(),
    "money": pa.decimal128(12, 2),
    "list": pa.list_(pa.field("element", pa.int64())),
    "map": pa.map_(pa.string(), pa.int64()),
    "struct": pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())]),
    "user agent": pa.string(),
}
COUNTRIES = ["de", "a/b c%=ü?", None, "plain", "2026-01-01"]


def row(number: int) -> dict[str, Any]:
    if number % 7 == 3:
        return {"offset": number, "timestamp": None, "country": COUNTRIES[number % 5]}
    return {
        "offset": number,
        "timestamp": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=5 * number, microseconds=7),
        "country": COUNTRIES[number % 5],
        "int": -number,
        "short": number,
        "byte": -1,
        "float": number / 2,
        "double": number / 3,
        "flag": number % 2 == 0,
        "bytes": bytes([number, 0, 255]),
        "day": date(2026, 1, 1) + timedelta(days=number),
        "money": Decimal(number) / 4,
        "list": [number, None],
        "map": [("k", number)],
        "struct": {"a": number, "b": None},
        "user agent": f"agent {number}",
    }


def batch(numbers: range, *, later: bool) -> pa.RecordBatch:
    kinds = {**KINDS, **({"later": pa.string()} if later else {})}
    rows = [{**row(number), **({"later": f"l{number}"} if later else {})} for number in numbers]
    schema = pa.schema([pa.field(name, kind) for name, kind in kinds.items()])
    return pa.RecordBatch.from_pylist(rows, schema)


def everything(path: AnyPath) -> Table:
    """Rows 0 to 29, partitioned by day and country; the column `later` from row 20 on."""
    schema = pa.schema([pa.field(name, kind) for name, kind in KINDS.items()])
    table = Table.create(path, schema, ["date(timestamp) as landed", "country"], {}, PIPELINE)
    for start in (0, 10, 20):
        rows = batch(range(start, start + 10), later=start == 20)
        spans = {at(0): OffsetSpan(start, start + 10)}
        table.commit(PIPELINE, written(table, rows), spans, schema=rows.schema)
        if start == 10:
            compact(None, path)
            table.checkpoint()
    table.refresh()
    return table


def expected(number: int) -> dict[str, Any]:
    """The row as any reader should return it, maps as dictionaries."""
    full = dict.fromkeys([*KINDS, "later"]) | row(number)
    if full["map"] is not None:
        full["map"] = dict(full["map"])
    if number >= 20:
        full["later"] = f"l{number}"
    full["landed"] = None if full["timestamp"] is None else full["timestamp"].date()
    return full
