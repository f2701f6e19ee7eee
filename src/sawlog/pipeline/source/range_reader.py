"""Reads one range of a partition in a task, as Arrow batches with Spark's columns.

Memory is bounded by the fetch size. Connections are kept between the tasks of a worker process. If
records are lost, it fails with their offsets, or continues with what is left.
"""

import logging
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.arrow.offset_range import OffsetsLost, read_range
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.formats.spark_types import FIRST_MS, LAST_MS
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.client_options import Brokers
from sawlog.pipeline.source.executor_check import check_here
from sawlog.pipeline.source.source_options import ReadSettings
from sawlog.pipeline.source.topic_stream import DataLost

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}
_OF_RECORDS = {
    "key": "key",
    "value": "value",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestampType": "timestamp_type",
    "headers": "headers",
}
_TOPIC_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID)
_logger = logging.getLogger(__name__)
_clusters: dict[Brokers, Cluster] = {}


def read_batches(settings: ReadSettings, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of the range in order, with the wanted columns."""
    check_here(settings.versions)
    cluster = _clusters.pop(settings.brokers, None) or settings.brokers.connect()
    cluster.forget([wanted.partition.topic])  # the topic may have changed since the last task
    try:
        for batch in _record_batches(cluster, settings, wanted):
            if batch.num_rows:
                yield spark_batch(batch, wanted.partition, settings.columns)
    except BaseException:  # stopped in the middle: responses may be outstanding
        cluster.close()
        raise
    _clusters[settings.brokers] = cluster


def spark_batch(
    records: pa.RecordBatch, partition: TopicPartition, columns: tuple[str, ...]
) -> pa.RecordBatch:
    """Convert a batch of the client to Spark's names and types."""
    count = records.num_rows
    arrays: list[pa.Array] = []
    for name in columns:
        if name == "topic":
            arrays.append(pa.repeat(pa.scalar(partition.topic, pa.string()), count))
        elif name == "partition":
            arrays.append(pa.repeat(pa.scalar(partition.partition, pa.int32()), count))
        elif name == "timestamp":
            arrays.append(clamped_timestamps(records.column("timestamp")))
        else:
            arrays.append(records.column(_OF_RECORDS[name]).cast(TYPES[name]))
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema([pa.field(name, TYPES[name]) for name in columns])
    )


def clamped_timestamps(timestamps: pa.Array) -> pa.Array:
    """Convert milliseconds to microseconds.

    Producers may send any 64-bit value; times outside the years 1 to 9999 become the first or last
    in range.
    """
    millis = timestamps.cast(pa.int64())
    bounds = pc.min_max(millis).as_py()
    if bounds["min"] is not None and (bounds["min"] < FIRST_MS or bounds["max"] > LAST_MS):
        millis = pc.min_element_wise(pc.max_element_wise(millis, FIRST_MS), LAST_MS)
    return millis.cast(pa.timestamp("ms", tz="UTC")).cast(TYPES["timestamp"])


def _record_batches(
    cluster: Cluster, settings: ReadSettings, wanted: OffsetRange
) -> Iterator[pa.RecordBatch]:
    partition, position, end = wanted
    columns = {_OF_RECORDS[name] for name in settings.columns if name in _OF_RECORDS}
    while position < end:
        try:
            for chunk in read_range(
                cluster,
                partition,
                position,
                end,
                columns=columns or {"offset"},
                read_committed=settings.read_committed,
                max_bytes=settings.fetch_bytes,
            ):
                position = chunk.next_offset
                yield chunk.batch
            return
        except KafkaError as error:
            is_gone = error.code in _TOPIC_GONE
            if not is_gone and not isinstance(error, OffsetsLost):
                raise
            if settings.fail_on_data_loss:
                raise DataLost(
                    f"{error}. To continue without them, set 'failOnDataLoss' to false"
                ) from error
            _logger.warning("%s; continuing with the records that are left", error)
            if is_gone:
                return
            left = _what_is_left(cluster, partition, position, end)
            if left == (position, end):  # all records are there after all, so nothing is skipped
                raise
            position, end = left


def _what_is_left(
    cluster: Cluster, partition: TopicPartition, position: int, end: int
) -> tuple[int, int]:
    first = list_offsets(cluster, {partition: EARLIEST})[partition].offset
    last = list_offsets(cluster, {partition: LATEST})[partition].offset
    return max(position, first), min(end, last)
