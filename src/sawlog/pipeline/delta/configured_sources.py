"""Registers Spark data sources that know the options of an object store.

Spark shows the options of a reader in plans, in its UI and in its event log, so credentials must
not be among them. A source with options is a class made for them, which Spark keeps as a pickle and
sends to the Python workers; its readers carry the options to the tasks.
"""

import threading
from typing import TYPE_CHECKING

from sawlog.pipeline.delta.table_path import NO_OPTIONS, StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

_numbers: dict[StorageOptions, int] = {NO_OPTIONS: 0}
_lock = threading.Lock()


def register_source(
    spark: "SparkSession", source: "type[DataSource]", options: StorageOptions
) -> str:
    """Register `source` for these options; returns the format name under which to load it.

    The class attribute `storage_options` of the registered class has the options.
    """
    with _lock:
        number = _numbers.setdefault(options, len(_numbers))
    if number == 0:
        spark.dataSource.register(source)
        return source.name()
    configured = _configured(source, f"{source.name()}-{number}", options)
    spark.dataSource.register(configured)
    return configured.name()


def _configured(
    source: "type[DataSource]", name: str, options: StorageOptions
) -> "type[DataSource]":
    """A subclass that is pickled by value, since no module has it."""

    def format_name(cls: object) -> str:  # noqa: ARG001
        return name

    members = {"storage_options": options, "name": classmethod(format_name)}
    return type(f"{source.__name__}WithOptions", (source,), members)
