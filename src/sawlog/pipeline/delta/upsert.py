"""Upserts: rows of a batch replace rows with the same key, exactly once per batch.

A query in update mode emits, batch by batch, the new row of each key that changed. The table stores
the number of the last batch of each query, so a repeated batch changes nothing.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.delta.delta_log import Snapshot
from sawlog.pipeline.delta.keys import (
    comparable_keys,
    is_among,
    key_ranges,
    last_per_key,
    may_hold_keys,
)
from sawlog.pipeline.delta.rewrite import Rewrite, rewrite
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion, Table


def upsert(
    table: Table, batch: pa.Table, keys: Sequence[str], query_id: str, batch_id: int
) -> CommittedVersion | AlreadyCommitted:
    """Replace the rows that have the keys of the batch, null being a key too.

    If the batch has several rows with one key, the last one is kept.
    """
    unknown = [key for key in keys if key not in batch.column_names]
    if unknown or not keys:
        raise ValueError(f"rows are upserted by columns that they have, not by {unknown or 'none'}")
    rows = last_per_key(batch, keys)
    key_rows = comparable_keys(rows, keys)
    ranges = key_ranges(rows, keys)

    def keep(found: pa.RecordBatch) -> pa.RecordBatch:
        return found.filter(pc.invert(is_among(comparable_keys(found, keys), key_rows)))

    def is_done(snapshot: Snapshot) -> bool:
        return snapshot.transactions.get(query_id, -1) >= batch_id

    return rewrite(
        table,
        Rewrite(
            "MERGE",
            touches=lambda file: bool(rows.num_rows) and may_hold_keys(file, ranges),
            looks_at=tuple(keys),
            keep=keep,
            insert=rows if rows.num_rows else None,
            transactions={query_id: batch_id},
            is_done=is_done,
        ),
    )
