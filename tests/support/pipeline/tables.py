"""Small tables for tests, with rows as the landing writes them."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.pipeline.delta.data_files import DataFile, decode_path
from sawlog.pipeline.delta.delta_types import TIMESTAMP
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion, Table
from sawlog.pipeline.delta.table_path import AnyPath

PIPELINE = "lake-access"
TOPIC = "access"
DAY_US = 24 * 60 * 60 * 1_000_000

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("value", pa.binary()),
    ]
)


def at(partition: int, topic: str = TOPIC) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(partition))


def rows(partition: int, offsets: Iterable[int], *, days: int = 1) -> pa.RecordBatch:
    """Records of one partition, spread over this many days."""
    numbers = list(offsets)
    return pa.RecordBatch.from_pydict(
        {
            "topic": [TOPIC] * len(numbers),
            "partition": [partition] * len(numbers),
            "offset": numbers,
            "timestamp": [(number % days) * DAY_US for number in numbers],
            "value": [f"{partition}:{number}".encode() for number in numbers],
        },
        schema=SCHEMA,
    )


def new_table(
    path: AnyPath,
    partition_by: Sequence[str] = (),
    starts: Mapping[TopicPartition, int] | None = None,
    *,
    schema: pa.Schema = SCHEMA,
    properties: Mapping[str, str] | None = None,
) -> Table:
    return Table.create(path, schema, partition_by, starts or {}, PIPELINE, properties)


def written(table: Table, *batches: pa.RecordBatch) -> list[DataFile]:
    with FileWriter(table.storage, table.partition_by) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.close()


def land(
    table: Table, partition: int, start: int, end: int, *, days: int = 1
) -> CommittedVersion | AlreadyCommitted:
    """Land all records with these offsets in one commit."""
    files = written(table, rows(partition, range(start, end), days=days))
    return table.commit(PIPELINE, files, {at(partition): OffsetSpan(start, end)})


def contents(table: Table) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of every row of the handle's version, sorted, with duplicates."""
    found: list[tuple[int, int, bytes]] = []
    for file in table.files():
        with table.storage.open_input(decode_path(file.path)) as source:
            parquet = pq.ParquetFile(source).read(["partition", "offset", "value"])
        columns = [parquet[name].to_pylist() for name in ("partition", "offset", "value")]
        found += zip(*columns, strict=True)
    return sorted(found)


def expected(ends: Mapping[int, int]) -> list[tuple[int, int, bytes]]:
    """The content of a table whose partitions landed from 0 to these offsets."""
    return sorted(
        (partition, offset, f"{partition}:{offset}".encode())
        for partition, end in ends.items()
        for offset in range(end)
    )
