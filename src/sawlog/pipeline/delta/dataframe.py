"""A table as a DataFrame, without a jar: Spark's Parquet reader on the files of a version.

In an object store, for which Spark would need a jar, Python workers read the files
(`table_source.py`). Columns that a file lacks are null. Partition columns come from directory
names. A value that was too long for a directory name is added as a constant instead.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from sawlog.pipeline.delta.data_files import decode_path
from sawlog.pipeline.delta.delta_types import to_json
from sawlog.pipeline.delta.partitioning import path_has_values
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import StorageOptions, TablePath, is_object_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from sawlog.pipeline.delta.delta_log import ActiveFile
    from sawlog.pipeline.delta.table_path import AnyPath

_GLOB = re.compile(r"([\\*?\[\]{}])")


def read(
    spark: SparkSession,
    path: AnyPath,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read a table as of now, or as of a version that its log still has.

    `storage_options` are those of an object store, as `lake_options` in a pipeline file.
    """
    if storage_options is not None:
        path = TablePath(path, StorageOptions(storage_options))
    table = Table.open(path, version)
    if is_object_store(table.path):
        from sawlog.pipeline.delta.table_source import register

        source = spark.read.format(register(spark, table.path.options))
        return source.option("path", str(table.path)).option("version", table.version).load()
    schema = spark_schema(table.schema)
    names = table.partition_columns
    plain: list[ActiveFile] = []
    apart: dict[tuple[str | None, ...], list[ActiveFile]] = {}
    for file in table.files():
        if path_has_values(names, file.partition_values, decode_path(file.path)):
            plain.append(file)
        else:
            values = tuple(file.partition_values.get(name) for name in names)
            apart.setdefault(values, []).append(file)
    frame = _read_plain(spark, table, plain, schema)
    for values, files in apart.items():
        constants = dict(zip(names, values, strict=True))
        frame = frame.unionByName(_read_apart(spark, table, files, schema, constants))
    return frame


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to Spark's; Delta's JSON of a schema is also Spark's."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(to_json(schema)))


def _read_plain(
    spark: SparkSession, table: Table, files: list[ActiveFile], schema: StructType
) -> DataFrame:
    if not files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option("basePath", table.path)
    return reader.parquet(*_paths(table, files)).select(*map(_quoted_name, schema.names))


def _read_apart(
    spark: SparkSession,
    table: Table,
    files: list[ActiveFile],
    schema: StructType,
    constants: dict[str, str | None],
) -> DataFrame:
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    inside = StructType([field for field in schema if field.name not in constants])
    frame = spark.read.schema(inside).parquet(*_paths(table, files))
    for name, value in constants.items():
        frame = frame.withColumn(name, functions.lit(value).cast(schema[name].dataType))
    return frame.select(*map(_quoted_name, schema.names))


def _paths(table: Table, files: list[ActiveFile]) -> list[str]:
    """The full paths, escaped: Spark reads paths as glob patterns."""
    return [_GLOB.sub(r"\\\1", table.storage.full(decode_path(file.path))) for file in files]


def _quoted_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
