"""Reads the rows of a data file in batches, with the columns of the table."""

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from sawlog.pipeline.delta.data_files import decode_path
from sawlog.pipeline.delta.partitioning import constant
from sawlog.pipeline.delta.schema_evolution import conform
from sawlog.pipeline.delta.table_storage import TableStorage

BATCH_ROWS = 64 * 1024


def scan_file(
    storage: TableStorage,
    path: str,
    schema: pa.Schema,
    partition_values: Mapping[str, str | None],
    *,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Read a file with the columns of `schema`.

    Columns that the file lacks are null; partition columns have the values of the log.
    """
    names = [name for name in schema.names if name not in partition_values]
    with storage.open_input(decode_path(path)) as source:
        parquet = pq.ParquetFile(source, pre_buffer=False)
        wanted = _present(parquet.schema_arrow, names)
        for batch in parquet.iter_batches(batch_rows, columns=wanted):
            yield _completed(batch, schema, partition_values)


def _present(schema: pa.Schema, names: Collection[str]) -> list[str]:
    found = set(schema.names)
    return [name for name in names if name in found]


def _completed(
    batch: pa.RecordBatch, schema: pa.Schema, partition_values: Mapping[str, str | None]
) -> pa.RecordBatch:
    for name, value in partition_values.items():
        if schema.get_field_index(name) >= 0:
            kind = schema.field(name).type
            batch = batch.append_column(name, constant(value, kind, batch.num_rows))
    return conform(batch, schema)
