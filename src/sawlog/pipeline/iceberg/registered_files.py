"""Describes a Parquet file of the landing as a data file of an Iceberg table."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile as ManifestFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata

from sawlog.pipeline.delta.data_files import DataFile, decode_path
from sawlog.pipeline.delta.table_storage import TableStorage
from sawlog.pipeline.iceberg.iceberg_types import partition_record


def registered_file(
    metadata: TableMetadata, schema: pa.Schema, storage: TableStorage, file: DataFile, location: str
) -> ManifestFile:
    """The file with its statistics; `location` is its absolute URL.

    Its partition is the one that the task reports. pyiceberg's `add_files` takes it from the
    statistics of the file instead, which lack long values.
    """
    with storage.open_input(decode_path(file.path)) as source:
        footer = pq.read_metadata(source)
    paths = parquet_path_to_id_mapping(metadata.schema())
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer,
        stats_columns=_plan(metadata, footer, paths),
        parquet_column_mapping=paths,
    )
    return ManifestFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=partition_record(metadata.spec(), schema, file.partition_values),
        file_size_in_bytes=file.size,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _plan(
    metadata: TableMetadata, footer: pq.FileMetaData, paths: dict[str, int]
) -> dict[int, StatisticsCollector]:
    """Which statistics to take: none of columns without them, for which pyiceberg logs a warning.

    The landing writes no statistics of values in bytes and of nested columns.
    """
    plan = compute_statistics_plan(metadata.schema(), metadata.properties)
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for position in range(footer.num_columns):
            column = group.column(position)
            if not column.is_stats_set:
                field = paths[column.path_in_schema]
                plan[field] = replace(plan[field], mode=MetricsMode(MetricModeTypes.NONE))
    return plan
