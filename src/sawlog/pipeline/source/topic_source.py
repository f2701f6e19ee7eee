"""`spark.read` and `spark.readStream.format("sawlog")`: topics as DataFrames, without a jar.

Only the adapter to Spark: options, planning and reading are in modules beside it that do not know
Spark; the writers are in `sink`. Needs PySpark 4.2, whose readers support limits and
Trigger.AvailableNow.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sawlog.client.net.cluster import Cluster
from sawlog.pipeline.sink.topic_sink import batch_writer, stream_writer
from sawlog.pipeline.source.batch_planning import OffsetRange, split_ranges
from sawlog.pipeline.source.executor_check import versions_here
from sawlog.pipeline.source.group_progress import COMMIT_TIMEOUT_MS, GroupProgress
from sawlog.pipeline.source.option_values import BadOption
from sawlog.pipeline.source.source_errors import short_errors
from sawlog.pipeline.source.source_options import (
    ReadSettings,
    SourceOptions,
    read_columns,
    read_source_options,
)
from sawlog.pipeline.source.subscription import BadPosition, Subscription
from sawlog.pipeline.source.topic_stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}


@short_errors
class TopicSource(DataSource):
    """The source; it checks its options before anything is read or written."""

    @classmethod
    def name(cls) -> str:
        return "sawlog"

    def schema(self) -> StructType:
        return schema_of(read_columns(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_source_options(self.options, streaming=False)
        _check_schema(schema, options.columns)
        return TopicReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        try:
            options = read_source_options(self.options, streaming=True)
            _check_schema(schema, options.columns)
        except BadOption as refused:
            return InvalidStreamReader(str(refused))
        return TopicStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return batch_writer(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,  # noqa: ARG002 - the output modes update and complete add rows too
    ) -> DataSourceStreamArrowWriter:
        return stream_writer(self.options, schema)


class RangeToRead(InputPartition):
    """The range of one task."""

    def __init__(self, wanted: OffsetRange) -> None:
        self.wanted = wanted


@short_errors
class TopicReader(DataSourceReader):
    """A batch query between two positions, which are resolved once, when it is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._settings = read_settings(options)

    def partitions(self) -> Sequence[InputPartition]:
        with self._options.client.brokers.connect() as cluster:
            ranges = ranges_between(_subscription(cluster, self._options), self._options)
        return [RangeToRead(wanted) for wanted in ranges]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return _read(self._settings, partition)


@short_errors
class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. Spark asks one in the driver for offsets, and sends copies to the tasks, which only
    read.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._settings = read_settings(options)
        self._opened: Stream | None = None
        self._clusters: list[Cluster] = []

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # The stream has its own limits: those of Spark have no delay and cannot be combined.
        limit = self._options.limits.max_records
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._stream.initial()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        # Spark always passes this if we have no limit; with a limit, ours is used.
        is_all = isinstance(limit, ReadAllAvailable) and limit != self.getDefaultReadLimit()
        return self._stream.latest(start, unlimited=is_all)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._stream.reported()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stream.fix_end()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [RangeToRead(wanted) for wanted in self._stream.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return _read(self._settings, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: Spark calls it one batch late, and the next start has the same offsets."""

    def stop(self) -> None:
        for cluster in self._clusters:
            cluster.close()

    @property
    def _stream(self) -> Stream:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> Stream:
        options = self._options
        cluster = self._connect(options.client.brokers.timeout_ms)
        topics = _subscription(cluster, options)
        group_progress = None
        if options.client.group is not None:
            group_progress = GroupProgress(self._connect(COMMIT_TIMEOUT_MS), options.client.group)
        return Stream(
            topics,
            options,
            resolve_start=lambda: topics.resolve(
                options.starting, is_start=True, late_start_is_latest=options.late_start_is_latest
            ),
            group_progress=group_progress,
        )

    def _connect(self, timeout_ms: float) -> Cluster:
        self._clusters.append(self._options.client.brokers.connect(timeout_ms=timeout_ms))
        return self._clusters[-1]


@short_errors
class InvalidStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises the error of invalid options when a method is called.

    If the error were raised before there is a reader, Spark would report a failing stop() instead.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        raise BadOption(self._reason)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        raise BadOption(self._reason)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        raise BadOption(self._reason)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        raise BadOption(self._reason)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        raise BadOption(self._reason)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:  # noqa: ARG002
        raise BadOption(self._reason)


def schema_of(columns: Iterable[str]) -> StructType:
    return StructType([StructField(name, _TYPES[name]) for name in columns])


def read_settings(options: SourceOptions) -> ReadSettings:
    """The settings for the tasks, with the package versions of the driver."""
    client = options.client
    return ReadSettings(
        brokers=replace(client.brokers, timeout_ms=options.read_timeout_ms),
        columns=options.columns,
        read_committed=client.read_committed,
        fetch_bytes=client.fetch_bytes,
        fail_on_data_loss=options.fail_on_data_loss,
        versions=versions_here(),
    )


def ranges_between(topics: Subscription, options: SourceOptions) -> list[OffsetRange]:
    """The ranges of a batch query. Raises BadPosition if it ends before it starts."""
    starts = topics.resolve(
        options.starting, is_start=True, late_start_is_latest=options.late_start_is_latest
    )
    ends = topics.resolve(options.ending, is_start=False)
    whole = [OffsetRange(partition, starts[partition], end) for partition, end in ends.items()]
    for wanted in whole:
        if wanted.size < 0:
            raise BadPosition(
                f"{wanted.partition}: the starting offset {wanted.start} is after the ending offset"
                f" {wanted.end}"
            )
    return split_ranges(whole, min_tasks=options.min_tasks, max_records=options.max_task_records)


def _subscription(cluster: Cluster, options: SourceOptions) -> Subscription:
    return Subscription(cluster, options.topics, read_committed=options.client.read_committed)


def _read(settings: ReadSettings, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
    if not isinstance(partition, RangeToRead):  # Spark's own partition if there is nothing to read
        return iter(())
    from sawlog.pipeline.source.range_reader import read_batches  # needs pyarrow and numba

    return read_batches(settings, partition.wanted)


def _check_schema(schema: StructType, columns: Sequence[str]) -> None:
    if schema != schema_of(columns):
        raise BadOption(
            "the source 'sawlog' has columns of its own, so it takes no schema; choose among them"
            " by the option 'columns'"
        )
