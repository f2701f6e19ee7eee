"""A table in numbers, from its log alone."""

from collections.abc import Mapping
from typing import NamedTuple

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.table import Table

SMALL_BYTES = 32 * 1024 * 1024


class Status(NamedTuple):
    version: int
    committed_ms: int | None  # None: the log does not tell any more
    rows: int
    files: int
    size: int
    small_files: int
    partitions: int  # directories, 1 where the table has none
    columns: int
    offsets: Mapping[TopicPartition, int]


def status(table: Table, pipeline: str, *, small_bytes: int = SMALL_BYTES) -> Status:
    """As of the handle's version; files whose writer did not count rows add none."""
    files = table.state.files.values()
    return Status(
        version=table.version,
        committed_ms=table.state.committed_ms,
        rows=sum(file.rows or 0 for file in files),
        files=len(files),
        size=sum(file.size for file in files),
        small_files=sum(file.size < small_bytes for file in files),
        partitions=len({tuple(file.partition_values.values()) for file in files}),
        columns=len(table.schema),
        offsets=table.offsets(pipeline),
    )
