"""Arrow batches as plain rows, to compare them with records decoded one by one."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from sawlog.client.arrow.record_columns import ALL_FIELDS, RecordColumns
from sawlog.client.consumer.fetched_records import AbortedTransaction, FetchedRecords
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.records import Headers

PLACE = TopicPartition(TopicName("logs"), PartitionIndex(3))
LIMIT = 1_000_000


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def fetched(
    data: bytes | bytearray,
    position: int = 0,
    *aborted: AbortedTransaction,
    partition: TopicPartition = PLACE,
    limit: int = LIMIT,
) -> FetchedRecords:
    return FetchedRecords(partition, position, data, aborted=aborted, max_decompressed_bytes=limit)


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Convert a batch with all columns to rows."""
    batch.validate(full=True)
    assert batch.schema.equals(ALL_FIELDS)
    columns = [batch.column(name) for name in ALL_FIELDS.names]
    columns[ALL_FIELDS.names.index("timestamp")] = batch.column("timestamp").cast(pa.int64())
    *plain, headers = (column.to_pylist() for column in columns)
    pairs = [tuple((entry["key"], entry["value"]) for entry in row) for row in headers]
    return [Row(*row) for row in zip(*plain, pairs, strict=True)]


def decode(*sources: FetchedRecords, columns: Sequence[str] = ALL_FIELDS.names) -> pa.RecordBatch:
    """Decode all records into one Arrow batch."""
    taken = RecordColumns(columns, max_bytes=1 << 30)
    for source in sources:
        assert taken.take(source), f"more is left of {source.partition}"
    return taken.finish()
