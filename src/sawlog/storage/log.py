"""One partition's log: segments of record batches, from `start_offset` up to `end_offset`.

An example with numbers. A topic with segment.bytes=1000 gets three batches of 400 bytes with ten
records each: offsets 0-9 and 10-19 go to `00000000000000000000.log`, 20-29 roll the log and go to
`00000000000000000020.log`; end_offset is 30. `flush_later` now syncs both files and the directory
entry of the second, then flushed_offset is 30. `read(13, ...)` gives a slice that begins at the
batch 10-19: readers skip what they did not ask for. `truncate(13)` cuts whole batches only, so the
log ends at 10 and flushed_offset is 10. `advance_start(5)` removes nothing yet but `read(4)` is out
of range; `advance_start(10)` would remove a first segment that held only 0-9.
"""

from collections.abc import Callable
from typing import NamedTuple

from sawlog.core.ids import TopicId, TopicPartition
from sawlog.core.ports import DiskError, FileSlice
from sawlog.protocol.batches import BatchHeader
from sawlog.storage.config import LogConfig
from sawlog.storage.epochs import EpochEntry, LeaderEpochs
from sawlog.storage.producers import ProducerStates


class Appended(NamedTuple):
    """Where a batch went. A duplicate went nowhere: it has its old offset and old timestamp."""

    base_offset: int
    append_time_ms: int  # -1 where the records keep their producer's timestamps
    duplicate: bool


class TimedOffset(NamedTuple):
    """A record found by its time."""

    offset: int
    timestamp: int
    leader_epoch: int


class Log:
    """The records of one partition, as whole batches in files.

    Invariants: start_offset <= end_offset; flushed_offset <= end_offset; every batch begins where
    the one before it ended or later; bytes below flushed_offset are on the disk and never change;
    epochs and producers say what the batches say. A refused append changes nothing.
    """

    tp: TopicPartition
    topic_id: TopicId
    config: LogConfig
    start_offset: int
    end_offset: int
    flushed_offset: int
    """Everything below is on the disk (the recovery point)."""
    high_watermark: int
    """Kept by replication; here because the directory's checkpoint stores it. After a start it
    is what the checkpoint said, bounded by the log's ends."""
    epochs: LeaderEpochs
    producers: ProducerStates

    # Writing

    def append(self, batch: memoryview, header: BatchHeader, leader_epoch: int) -> Appended:
        """Appends one checked batch as the leader, with the next offsets, stamped in place.

        `batch` is exactly the bytes that `header` describes and may be reused afterwards. Raises
        KafkaError and changes nothing: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
        INVALID_TIMESTAMP, RECORD_LIST_TOO_LARGE (beyond segment.bytes), KAFKA_STORAGE_ERROR (disk
        full, directory offline, out of descriptors).
        """
        raise NotImplementedError

    def append_replicated(self, batch: memoryview, header: BatchHeader) -> None:
        """Appends a leader's batch as it is: its offsets, epoch and timestamps stay."""
        raise NotImplementedError

    def truncate(self, offset: int) -> None:
        """Cuts every batch that holds `offset` or lies after it; durable when it returns.

        `end_offset` is then `offset` or, where that lay inside a batch, the batch's base offset.
        """
        raise NotImplementedError

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers; segments wholly below it are removed.

        Nothing happens where `offset` is not above `start_offset`; OFFSET_OUT_OF_RANGE beyond
        the end. The new start is on disk with the next checkpoint.
        """
        raise NotImplementedError

    def retain(self, now_ms: int, limit_offset: int) -> list[str]:
        """Applies retention.ms and retention.bytes: removes the oldest segments that lie wholly
        below `limit_offset` (the high watermark); returns the removed files' names. Only with the
        cleanup policy "delete" by time and size; what lies below `start_offset` always goes."""
        raise NotImplementedError

    def flush_later(self, done: Callable[[DiskError | None], None]) -> None:
        """Group commit: `done` is called once all that was appended before this call is on disk.

        `flushed_offset` has moved by then. At most one flush is under way; callers that come
        meanwhile share the next. After a failure the directory is offline and `done` gets the
        error, now and for ever. `done` is never called from inside this call.
        """
        raise NotImplementedError

    def reconfigure(self, config: LogConfig) -> None:
        raise NotImplementedError

    # Leader epochs

    def assign_epoch(self, epoch: int) -> None:
        """This replica leads from `end_offset` on. In memory at once, durable before the first
        append of the epoch, so that a partition nobody writes to costs no write."""
        raise NotImplementedError

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry:
        """The largest epoch at or below `epoch` and its end offset; (-1, -1) if unknown."""
        raise NotImplementedError

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, limit_offset: int, whole_first_batch: bool
    ) -> FileSlice | None:
        """A slice of one segment that begins with the batch that holds `offset`.

        It ends at or before `limit_offset` (a batch boundary) and at `max_bytes`, there perhaps in
        the middle of a batch; with `whole_first_batch` the first batch is whole however large.
        None where nothing lies between `offset` and `limit_offset` or fits. OFFSET_OUT_OF_RANGE
        below `start_offset` and beyond `end_offset`.
        """
        raise NotImplementedError

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """How many bytes a reader at `offset` could get below `limit_offset`, over all segments."""
        raise NotImplementedError

    def offset_for_timestamp(self, timestamp: int, limit_offset: int) -> TimedOffset | None:
        """The first record below `limit_offset` whose timestamp is at or after `timestamp`."""
        raise NotImplementedError

    def offset_of_max_timestamp(self, limit_offset: int) -> TimedOffset | None:
        """The first record that has the highest timestamp of all below `limit_offset`."""
        raise NotImplementedError

    @property
    def size_bytes(self) -> int:
        raise NotImplementedError

    @property
    def unflushed_messages(self) -> int:
        return self.end_offset - self.flushed_offset
