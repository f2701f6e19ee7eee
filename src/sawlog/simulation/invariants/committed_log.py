"""The true state of each partition, which only a simulation knows: what was ever committed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sawlog.cluster.znodes import PartitionState
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicId, TopicPartition
from sawlog.core.ports import FileSlice
from sawlog.protocol.control_records import ControlType, read_marker
from sawlog.protocol.record_batch import BatchHeader, batches_in
from sawlog.protocol.records import Record, iterate
from sawlog.simulation.invariants.violation import Violation
from sawlog.storage.log import Log

READ_BYTES = 1 << 20


class Batch(NamedTuple):
    """What makes a batch the same on two replicas; the CRC covers the records."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int
    max_timestamp: int


class PartitionKey(NamedTuple):
    """A partition of one life of a topic."""

    name: TopicPartition
    topic_id: TopicId

    def __str__(self) -> str:
        return str(self.name)


@dataclass(slots=True)
class CommittedLog:
    """The batches below `high_watermark`, the highest that any leader has ever had; of a compacted
    partition the records, too, because each replica makes its own batches of them."""

    key: PartitionKey
    high_watermark: int = 0
    batches: dict[int, Batch] = field(default_factory=dict)
    stored: PartitionState | None = None
    """The partition's state in the store."""
    start_offset: int = 0
    """The highest log start offset of a replica that deleted records with a reason."""
    is_compacted: bool = False
    records: dict[int, Record] = field(default_factory=dict)
    last_offsets: dict[bytes | None, int] = field(default_factory=dict)
    """Of each key of a compacted partition, without aborted records and open transactions."""
    open_records: dict[int, list[Record]] = field(default_factory=dict)
    """Of a compacted partition: the records of each producer's open transaction."""

    def learn(self, log: Log, high_watermark: int) -> None:
        """Add what a leader has committed."""
        for batch in batches_between(log, self.high_watermark, high_watermark):
            self.batches[batch.base_offset] = batch
        if self.is_compacted:
            for header, data in _whole_batches(log, self.high_watermark, high_watermark):
                self._learn_records(header, data, high_watermark)
        self.high_watermark = high_watermark

    def _learn_records(self, header: BatchHeader, batch: memoryview, high_watermark: int) -> None:
        producer_id = header.producer_id
        if header.is_control:
            ended = self.open_records.pop(producer_id, [])
            if header.count and read_marker(batch).control_type is ControlType.COMMIT:
                self._replaced_by(ended)
            return
        records = [
            record
            for record in iterate(batch, max_decompressed_bytes=READ_BYTES)
            if self.high_watermark <= record.offset < high_watermark
        ]
        self.records.update({record.offset: record for record in records})
        if header.is_transactional:
            self.open_records.setdefault(producer_id, []).extend(records)
        else:
            self._replaced_by(records)

    def _replaced_by(self, records: list[Record]) -> None:
        for record in records:
            last_offset = self.last_offsets.get(record.key, -1)
            self.last_offsets[record.key] = max(last_offset, record.offset)

    def may_lack(self, record: Record) -> bool:
        """Whether compaction may remove this record: a later one has replaced it, or its
        transaction was aborted."""
        return self.last_offsets.get(record.key) != record.offset and not any(
            record in records for records in self.open_records.values()
        )


def batches_between(log: Log, start: int, end: int) -> Iterator[Batch]:
    """Yield the batches of a log that lie in this range of offsets."""
    for header, _ in _whole_batches(log, start, end):
        yield Batch(
            header.base_offset,
            header.next_offset,
            header.leader_epoch,
            header.crc,
            header.max_timestamp,
        )


def records_between(log: Log, start: int, end: int) -> Iterator[Record]:
    """Yield the records of a log that lie in this range of offsets, without markers."""
    for header, batch in _whole_batches(log, start, end):
        if header.is_control:
            continue
        for record in iterate(batch, max_decompressed_bytes=READ_BYTES):
            if start <= record.offset < end:
                yield record


def _whole_batches(log: Log, start: int, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    offset = max(start, log.start_offset)
    while offset < end:
        try:
            found = log.read(offset, READ_BYTES, limit_offset=end, whole_first_batch=True)
        except KafkaError:
            return
        if found is None:
            return
        before = offset
        for header, batch in _read_batches(log, found, offset):
            if header.next_offset > offset:
                yield header, batch
                offset = header.next_offset
        if offset == before:
            return


def _read_batches(
    log: Log, found: FileSlice, offset: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    view = memoryview(found.read())
    try:
        for position, header in batches_in(view):
            yield header, view[position : position + header.size]
    except KafkaError as error:
        raise Violation(
            "1",
            f"{log.tp}: {found.file.path} is damaged after position {found.position} (offset "
            f"{offset}): {error}",
        ) from None
