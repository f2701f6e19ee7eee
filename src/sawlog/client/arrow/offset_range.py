"""Reads one range of offsets of one partition as Arrow batches.

Memory stays within a few times `max_bytes`: one response, the next one in flight while the first is
decoded, and one Arrow batch. An unreachable broker is retried until the cluster's timeout. Missing
offsets raise an error that names them; they are never skipped.
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.arrow.record_columns import DEFAULT_MAX_BYTES, RECORD_FIELDS, RecordColumns
from sawlog.client.consumer.consumer import DEFAULT_MAX_DECOMPRESSED_BYTES
from sawlog.client.consumer.fetched_records import (
    AbortedTransaction,
    FetchedRecords,
    aborted_transactions,
)
from sawlog.client.consumer.fetcher import Fetcher, FetchLimits
from sawlog.client.errors import ClientError, kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.retries import Deadline
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NO_TOPIC_ID, TopicId, TopicPartition, format_topic_id
from sawlog.core.ports import Buffer, FileSlice
from sawlog.protocol.messages.fetch_response import PartitionData
from sawlog.protocol.record_batch import batches_in

DEFAULT_MAX_WAIT_MS = 500
_MAX_WAIT_MS = 1_000
_ONE_TRY_MS = 0


class Chunk(NamedTuple):
    batch: pa.RecordBatch
    next_offset: int  # all records below it have been read
    fetched_bytes: int  # on the wire, since the previous chunk


class OffsetsLost(KafkaError):
    """The log does not have all offsets of the range, or not any more."""

    def __init__(self, partition: TopicPartition, wanted: range, available: range) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} no longer has all of the offsets {wanted.start} to {wanted.stop - 1}: it"
            f" begins at {available.start} and ends before {available.stop}. Retention, deleted"
            " records or a lost log took them; to go on without them, start where it begins",
        )
        self.partition = partition
        self.wanted = wanted
        self.available = available

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.wanted, self.available)


class TopicReplaced(KafkaError):
    """The topic was deleted and created again: its offsets have no meaning in the new one."""

    def __init__(self, name: str, expected: bytes, found: bytes) -> None:
        super().__init__(
            ErrorCode.INCONSISTENT_TOPIC_ID,
            f"the topic {name!r} was deleted and created again: its id is"
            f" {format_topic_id(found)}, not {format_topic_id(expected)}. Its records are"
            " lost; start over with the new topic",
        )
        self.name, self.expected, self.found = name, expected, found

    @property
    def is_retriable(self) -> bool:
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.expected, self.found)


def read_range(
    cluster: Cluster,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    columns: Collection[str] = RECORD_FIELDS.names,
    read_committed: bool = False,
    topic_id: TopicId | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    max_wait_ms: int = DEFAULT_MAX_WAIT_MS,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> Iterator[Chunk]:
    """Yield all records with start <= offset < end; the last chunk's `next_offset` is `end`.

    Gaps (compaction, transactions) are fine. OffsetsLost if the log starts after `start` or ends
    before `end`; TopicReplaced if the topic does not have `topic_id`, or is replaced meanwhile. A
    record batch of more than `max_bytes` is returned whole.
    """
    if not 0 <= start <= end:
        raise ValueError(
            f"the range of offsets {start} to {end} is not valid: expected 0 <= start <= end"
        )
    taken = RecordColumns(columns, max_bytes=max_bytes)
    limits = FetchLimits(max_wait_ms, 1, max_bytes, max_bytes)
    reader = _Reader(cluster, partition, range(start, end), limits, read_committed, topic_id)
    return reader.chunks(taken, max_decompressed_bytes)


class _Reader:
    def __init__(
        self,
        cluster: Cluster,
        partition: TopicPartition,
        wanted: range,
        limits: FetchLimits,
        read_committed: bool,
        topic_id: TopicId | None,
    ) -> None:
        self._cluster = cluster
        self._partition = partition
        self._end = wanted.stop
        self._position = wanted.start  # of the fetch in flight or the next one
        self._read_committed = read_committed
        self._topic_id = topic_id  # if not given, that of the first data
        self._fetched_id = NO_TOPIC_ID
        self._fetcher = Fetcher(cluster, limits, read_committed=read_committed)

    def chunks(self, taken: RecordColumns, max_decompressed_bytes: int) -> Iterator[Chunk]:
        fetched_bytes = 0
        next_offset = self._position
        while next_offset < self._end:
            found = self._next_data()
            if found is None:
                yield Chunk(taken.finish(), self._end, fetched_bytes)
                return
            records, aborted = found
            fetched_bytes += len(records)
            fetched = FetchedRecords(
                self._partition,
                self._position,
                records,
                aborted=aborted,
                max_decompressed_bytes=max_decompressed_bytes,
            )
            # The headers say where the next fetch starts, which runs while this one is decoded.
            self._position = self._end_of(records)
            if self._position < self._end:
                self._fetch()
            is_empty = False
            while not is_empty:
                is_empty = taken.take(fetched, self._end)
                next_offset = min(self._end, self._position if is_empty else fetched.position)
                if taken.rows or next_offset == self._end:
                    yield Chunk(taken.finish(), next_offset, fetched_bytes)
                    fetched_bytes = 0

    def _end_of(self, records: Buffer) -> int:
        position = self._position
        try:
            for _, header in batches_in(records):
                position = max(position, header.next_offset)
        except KafkaError:
            return position  # decoding raises the error
        if position == self._position:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{self._partition} at offset {position} cannot be read: a response of"
                f" {len(records)} bytes holds no whole batch from there on",
            )
        return position

    # Fetches

    def _next_data(self) -> tuple[Buffer, list[AbortedTransaction]] | None:
        """Return the data at the position; None if the rest of the range is empty."""
        while True:
            for _, offset, data in self._fetcher.take_responses():
                if offset != self._position:
                    continue  # a late response of a former leader
                if data.error_code:
                    self._refused(data.error_code)
                elif data.records and not isinstance(data.records, FileSlice):
                    self._fetcher.succeeded()
                    self._topic_id = self._topic_id or self._fetched_id
                    return data.records, aborted_transactions(data) if self._read_committed else []
                elif self._end_known_by(data) >= self._end:
                    return None  # the only partition of a fetch is never left out
                else:
                    self._ends_early(self._end_known_by(data))
            self._fetcher.raise_failure()
            self._fetch()
            self._fetcher.wait(_MAX_WAIT_MS)

    def _fetch(self) -> None:
        name = self._partition.topic
        try:
            self._check_topic()
        except (KafkaError, ClientError) as error:
            self._fetcher.failed(error, [name])
        else:
            self._fetcher.send({self._partition: self._position})

    def _check_topic(self) -> None:
        """Check the topic id, which the next fetch uses."""
        name = self._partition.topic
        found = self._fetched_id = self._cluster.topic(name, deadline=Deadline(_ONE_TRY_MS)).id
        expected = self._topic_id or found
        if found != expected and NO_TOPIC_ID not in (found, expected):
            raise TopicReplaced(name, expected, found)

    def _end_known_by(self, data: PartitionData) -> int:
        return data.last_stable_offset if self._read_committed else data.high_watermark

    def _refused(self, code: int) -> None:
        error = kafka_error(
            code, f"the fetch of {self._partition} from offset {self._position} was refused"
        )
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._check_available()
            # The offsets exist: a broker that is not the leader responded.
            error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message)
        self._fetcher.failed(error, [self._partition.topic])

    def _ends_early(self, end: int) -> None:
        """Retry: a new leader's high watermark may lag for a moment."""
        self._check_available()
        text = (
            f"{self._partition} can be read up to {end}, not yet up to {self._end}: is a"
            " transaction open there?"
        )
        error = KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, text)
        self._fetcher.failed(error, [self._partition.topic])

    def _check_available(self) -> None:
        self._cluster.forget([self._partition.topic])
        self._check_topic()
        first, end = (
            list_offsets(self._cluster, {self._partition: mark})[self._partition].offset
            for mark in (EARLIEST, LATEST)
        )
        if self._position < first or end < self._end:
            wanted = range(self._position, self._end)
            raise OffsetsLost(self._partition, wanted, range(first, end))
