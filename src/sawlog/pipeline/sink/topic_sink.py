"""`df.write` and `df.writeStream.format("sawlog")`: rows to topics, as Arrow batches.

Each task has its own producer. A task that is done has all its rows stored. A task or batch that
runs again writes again: at least once, as with Spark's connector. With `exactlyOnce` a stream
writes in transactions instead (`exactly_once`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from sawlog.pipeline.sink.sink_options import WHAT, SinkOptions, read_sink_options
from sawlog.pipeline.source.executor_check import Versions, check_here, versions_here
from sawlog.pipeline.source.option_values import BadOption
from sawlog.pipeline.source.source_errors import short_errors

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class StoredRecords(WriterCommitMessage):
    """The number of records that a task has stored."""

    records: int


@short_errors
class TopicBatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, versions: Versions) -> None:
        self._options = options
        self._versions = versions

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        return _write(self._options, self._versions, iterator)


@short_errors
class ExactlyOnceWriter(DataSourceStreamArrowWriter):
    """Tasks prepare transactions; in the driver a new writer commits or aborts those of a batch."""

    def __init__(self, options: SinkOptions, versions: Versions) -> None:
        self._options = options
        self._versions = versions

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        check_here(self._versions)
        from sawlog.pipeline.sink.exactly_once import prepare, this_task

        with self._options.brokers.connect() as cluster:
            return prepare(cluster, self._options, this_task(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        from sawlog.pipeline.sink.exactly_once import commit_batch

        with self._options.brokers.connect() as cluster:
            commit_batch(cluster, self._options, messages, batchId)

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: ARG002, N803
    ) -> None:
        from sawlog.pipeline.sink.exactly_once import abort_batch

        with self._options.brokers.connect() as cluster:
            abort_batch(cluster, messages)


@short_errors
class TopicStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, versions: Versions) -> None:
        self._options = options
        self._versions = versions

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        return _write(self._options, self._versions, iterator)


def batch_writer(
    written: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    if overwrite:
        raise BadOption(f"{WHAT} appends to topics and never overwrites: use mode('append')")
    options = _checked(written, schema)
    if options.exactly_once is not None:
        raise BadOption(
            "'exactlyOnce' is for streams: df.write has no batch number by which a repeated write"
            " could be recognized"
        )
    return TopicBatchWriter(options, versions_here())


def stream_writer(written: Mapping[str, str], schema: StructType) -> DataSourceStreamArrowWriter:
    options = _checked(written, schema)
    if options.exactly_once is not None:
        return ExactlyOnceWriter(options, versions_here())
    return TopicStreamWriter(options, versions_here())


def _checked(written: Mapping[str, str], schema: StructType) -> SinkOptions:
    from sawlog.pipeline.sink.sink_rows import check_columns  # needs pyarrow

    options = read_sink_options(written)
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    check_columns(types, has_topic=options.topic is not None)
    return options


def _write(
    options: SinkOptions, versions: Versions, batches: Iterator["pa.RecordBatch"]
) -> WriterCommitMessage:
    check_here(versions)
    from sawlog.pipeline.sink.topic_writer import TopicWriter  # needs pyarrow and numba

    with options.brokers.connect() as cluster:
        writer = TopicWriter(cluster, options)
        for batch in batches:
            writer.write(batch)
        return StoredRecords(writer.finish())
