"""The true state of each partition, which only a simulation knows: what was ever committed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sawlog.cluster.znodes import PartitionState
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicId, TopicPartition
from sawlog.core.ports import FileSlice
from sawlog.protocol.record_batch import BatchHeader, batches_in
from sawlog.simulation.invariants.violation import Violation
from sawlog.storage.log import Log

READ_BYTES = 1 << 20


class Batch(NamedTuple):
    """What makes a batch the same on two replicas; the CRC covers the records."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int


class PartitionKey(NamedTuple):
    """A partition of one life of a topic."""

    name: TopicPartition
    topic_id: TopicId

    def __str__(self) -> str:
        return str(self.name)


@dataclass(slots=True)
class CommittedLog:
    """The batches below `high_watermark`, the highest that any leader has ever had."""

    key: PartitionKey
    high_watermark: int = 0
    batches: dict[int, Batch] = field(default_factory=dict)
    stored: PartitionState | None = None
    """The partition's state in the store."""

    def learn(self, log: Log, high_watermark: int) -> None:
        """Add what a leader has committed."""
        for batch in batches_between(log, self.high_watermark, high_watermark):
            self.batches[batch.base_offset] = batch
        self.high_watermark = high_watermark


def batches_between(log: Log, start: int, end: int) -> Iterator[Batch]:
    """Yield the batches of a log that lie in this range of offsets."""
    offset = max(start, log.start_offset)
    while offset < end:
        try:
            found = log.read(offset, READ_BYTES, limit_offset=end, whole_first_batch=True)
        except KafkaError:
            return
        if found is None:
            return
        before = offset
        for header in _headers(log, found, offset):
            if header.next_offset > offset:
                yield Batch(header.base_offset, header.next_offset, header.leader_epoch, header.crc)
                offset = header.next_offset
        if offset == before:
            return


def _headers(log: Log, found: FileSlice, offset: int) -> Iterator[BatchHeader]:
    try:
        for _, header in batches_in(memoryview(found.read())):
            yield header
    except KafkaError as error:
        raise Violation(
            "1",
            f"{log.tp}: {found.file.path} is damaged after position {found.position} (offset "
            f"{offset}): {error}",
        ) from None
