"""Writes the rows of a sink task as record batches and waits until all are stored.

A row goes to its `partition`, else to the partition of its key as in every Kafka client, else to a
sticky partition for the length of a batch. With acks=all the producer is idempotent, so retries are
stored once. A task that Spark runs again writes its rows again, unless they are in a transaction.
"""

import random
import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.client.net.cluster import Cluster
from sawlog.client.net.retries import Deadline
from sawlog.client.net.wakeup import wait_readable
from sawlog.client.producer.delivery import ProducedBatch
from sawlog.client.producer.sender import Sender, now_ms
from sawlog.client.producer.sequence_numbers import SequenceNumbers, init_producer_id
from sawlog.client.producer.transaction_manager import TransactionManager
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.pipeline.sink.sink_errors import BadRows
from sawlog.pipeline.sink.sink_kernels import choose_partitions, encode_records, record_sizes
from sawlog.pipeline.sink.sink_options import SinkOptions
from sawlog.pipeline.sink.sink_rows import (
    NO_PARTITION,
    HeaderPieces,
    Pieces,
    chosen_partitions,
    headers_of,
    pieces_of,
)
from sawlog.protocol.record_batch import HEADER_SIZE
from sawlog.protocol.records import BatchBuilder

Longs = npt.NDArray[np.int64]

_SMALLEST_ROOM_BYTES = 64 * 1024


class EncodedRecords(BatchBuilder):
    """Records that are already encoded, with one timestamp."""

    __slots__ = ()

    def __init__(self, body: bytes, count: int, timestamp_ms: int) -> None:
        super().__init__()
        self.count = count
        self.size = HEADER_SIZE + len(body)
        self._pieces = [body]
        self._base_timestamp = self._max_timestamp = timestamp_ms


class _Columns(NamedTuple):
    keys: Pieces
    values: Pieces
    headers: HeaderPieces


class TopicWriter:
    """The writer of one task. Not thread-safe. Rows may be lost without `finish`."""

    def __init__(
        self,
        cluster: Cluster,
        options: SinkOptions,
        transactions: TransactionManager | None = None,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._sender = Sender(
            cluster,
            acks=options.acks,
            codec=options.codec,
            linger_ms=0,
            max_request_bytes=options.max_request_bytes,
            sequences=_sequences(cluster, options, transactions),
            on_complete=self._on_complete,
            transactions=transactions,
        )
        self._room = np.empty(max(_SMALLEST_ROOM_BYTES, options.batch_bytes), np.uint8)
        self._sticky: dict[str, tuple[int, int]] = {}
        self._buffered_bytes = 0
        self._error: Exception | None = None
        self._sent_count = 0
        self.stored_count = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows; blocks while too many bytes are in flight."""
        count = batch.num_rows
        if count == 0:
            return
        by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns = _Columns(
            pieces_of(by_name.get("key"), count),
            pieces_of(by_name.get("value"), count),
            headers_of(by_name.get("headers"), count),
        )
        sizes = record_sizes(*columns)
        chosen = chosen_partitions(by_name.get("partition"), count)
        timestamp_ms = time.time_ns() // 1_000_000
        for topic, rows in self._by_topic(by_name.get("topic"), count):
            self._write_topic(topic, rows, columns, sizes, chosen[rows], timestamp_ms)

    def finish(self) -> int:
        """Wait until all rows are stored; returns the number of records."""
        while not self._sender.accumulator.is_empty and self._error is None:
            self._wait_for_one()
        self._raise_what_failed()
        return self.stored_count

    def _by_topic(self, column: pa.Array | None, count: int) -> list[tuple[str, Longs]]:
        if self._options.topic is not None:
            return [(self._options.topic, np.arange(count))]
        if column is None or column.null_count:
            raise BadRows("a row has no 'topic'; set the option 'topic', or fill the column")
        encoded = pc.dictionary_encode(column)
        codes = encoded.indices.to_numpy()
        return [
            (topic, np.flatnonzero(codes == code))
            for code, topic in enumerate(encoded.dictionary.to_pylist())
        ]

    def _write_topic(
        self, topic: str, rows: Longs, columns: _Columns, sizes: Longs, chosen: Longs, at_ms: int
    ) -> None:
        known = self._cluster.topic(topic).partitions  # a misspelt name must not create a topic
        wrong = chosen[(chosen >= len(known)) | (chosen < NO_PARTITION)]
        if len(wrong):
            raise BadRows(
                f"the column 'partition' says {wrong[0]}, and the topic {topic!r} has the"
                f" partitions 0 to {len(known) - 1}"
            )
        sticky = self._sticky.get(topic) or (random.randrange(len(known)), 0)
        self._sticky[topic] = choose_partitions(
            columns.keys, sizes, rows, chosen, len(known), sticky, self._options.batch_bytes
        )
        order = np.argsort(chosen, kind="stable")
        bounds = np.flatnonzero(np.diff(chosen[order])) + 1
        for part in np.split(order, bounds):
            where = TopicPartition(TopicName(topic), PartitionIndex(int(chosen[part[0]])))
            self._write_partition(where, rows[part], columns, at_ms)

    def _write_partition(
        self, where: TopicPartition, rows: Longs, columns: _Columns, at_ms: int
    ) -> None:
        first = 0
        while first < len(rows):
            after, size, needed = encode_records(
                *columns, rows, first, self._room, self._options.batch_bytes
            )
            if after == first:  # a record larger than any before
                self._room = np.empty(needed, np.uint8)
                continue
            body = self._room[:size].tobytes()
            self._send(where, EncodedRecords(body, after - first, at_ms))
            first = after

    def _send(self, where: TopicPartition, records: EncodedRecords) -> None:
        deadline = Deadline(self._options.delivery_timeout_ms)
        batch = ProducedBatch(where, self._sent_count + 1, now_ms(), deadline, records)
        batch.close()
        self._sent_count += records.count
        self._buffered_bytes += records.size
        self._sender.accumulator.add(batch)
        self._sender.run_once()
        while self._buffered_bytes > self._options.buffer_bytes and self._error is None:
            self._wait_for_one()
        self._raise_what_failed()

    def _wait_for_one(self) -> None:
        """Send what can be sent, and wait for a response or a retry that is due."""
        self._sender.run_once(flushing=True)
        if not self._sender.accumulator.is_empty:
            descriptors, wait_ms = self._sender.next_wait(flushing=True)
            wait_readable(descriptors, wait_ms)

    def _on_complete(self, batch: ProducedBatch) -> None:
        self._buffered_bytes -= batch.builder.size
        if batch.error is None:
            self.stored_count += batch.builder.count
        elif self._error is None:
            self._error = batch.error

    def _raise_what_failed(self) -> None:
        if self._error is not None:
            raise self._error


def _sequences(
    cluster: Cluster, options: SinkOptions, transactions: TransactionManager | None
) -> SequenceNumbers | None:
    if transactions is not None:
        return transactions.sequences
    return SequenceNumbers(lambda: init_producer_id(cluster)) if options.idempotent else None
