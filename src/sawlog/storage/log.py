"""One partition's log: segments of record batches, from `start_offset` up to `end_offset`.

An example with numbers. A topic with segment.bytes=1000 gets three batches of 400 bytes with ten
records each: offsets 0-9 and 10-19 go to `00000000000000000000.log`, 20-29 roll the log and go to
`00000000000000000020.log`; end_offset is 30. `flush_later` now syncs both files and the directory
entry of the second, then flushed_offset is 30. `read(13, ...)` gives a slice that begins at the
batch 10-19: readers skip what they did not ask for. `truncate(13)` cuts whole batches only, so the
log ends at 10 and flushed_offset is 10. `advance_start(5)` removes no file, but `read(4)` is out of
range from then on; with three segments `advance_start(20)` would remove the first.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId, TopicPartition
from sawlog.core.ports import DiskError, DiskFull, FileSlice, TooManyOpenFiles
from sawlog.protocol.record_batch import BatchHeader, stamp, stamp_append_time
from sawlog.storage import epoch_repair, lookup, refusals, rolling, trimming
from sawlog.storage.commit import GroupCommit
from sawlog.storage.epochs import EpochEntry, LeaderEpochs
from sawlog.storage.log_config import FOREVER, LOG_APPEND_TIME, LogConfig
from sawlog.storage.log_files import EPOCH_CHECKPOINT, encode_epochs
from sawlog.storage.log_owner import LogOwner
from sawlog.storage.lookup import TimedOffset
from sawlog.storage.producers import ProducerStates
from sawlog.storage.scan import Damage
from sawlog.storage.segment import MAX_RELATIVE_OFFSET, Segment
from sawlog.storage.snapshots import Snapshots

__all__ = ["Appended", "Log", "TimedOffset"]

_new = tuple.__new__


class Appended(NamedTuple):
    """Where a batch went. A duplicate went nowhere: it has its old offset and old timestamp."""

    base_offset: int
    append_time_ms: int  # -1 where the records keep their producer's timestamps
    duplicate: bool


class Log:
    """The records of one partition, as whole batches in files.

    Invariants: start_offset <= end_offset; flushed_offset <= end_offset; every batch begins where
    the one before it ended or later; bytes below flushed_offset are on the disk and never change;
    epochs and producers say what the batches say. A refused append changes nothing.
    """

    __slots__ = (
        "_are_epochs_checked",
        "_durable_epoch",
        "_is_ready",
        "_producers",
        "_segment_bytes",
        "_stamps_time",
        "_timestamp_after_ms",
        "_timestamp_before_ms",
        "_unloaded_producers_at",
        "active",
        "bases",
        "commit",
        "config",
        "directory",
        "doomed",
        "end_offset",
        "epochs",
        "flushed_offset",
        "generation",
        "high_watermark",
        "home",
        "is_closed",
        "is_removing",
        "segments",
        "snapshots",
        "start_offset",
        "topic_id",
        "tp",
    )

    def __init__(
        self, home: LogOwner, tp: TopicPartition, topic_id: TopicId, config: LogConfig
    ) -> None:
        """An unopened log: `recovery.open_log` and `LogDirectory.create` give it segments."""
        self.home = home
        self.tp = tp
        self.topic_id = topic_id
        self.directory = str(tp)
        self.is_closed = False
        self.generation = 0  # how often it was truncated

        self.start_offset = 0
        self.end_offset = 0
        self.flushed_offset = 0  # the recovery point: everything below is on the disk
        self.high_watermark = 0  # kept by replication, checkpointed by the directory
        self.segments: list[Segment] = []  # oldest first; the last one is active
        self.bases: list[int] = []  # their base offsets
        self.doomed: list[Segment] = []  # taken out at the start, to be unlinked one by one
        self.is_removing = False
        self.epochs = LeaderEpochs()
        self._producers = ProducerStates()
        self._unloaded_producers_at: int | None = None
        self.snapshots = Snapshots(home.disk, self.directory)
        self.commit = GroupCommit(self)

        self._are_epochs_checked = False  # against the batches, before replication goes by them
        self._durable_epoch = -1
        self._is_ready = False  # for an append: nothing to look at first
        self.reconfigure(config)

    def adopt(self, segments: list[Segment]) -> None:
        """Takes a non-empty list of segments as its own."""
        self.segments = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self._is_ready = False

    # Writing

    def append(self, batch: memoryview, header: BatchHeader, leader_epoch: int) -> Appended:
        """Appends one checked batch as the leader, with the next offsets, stamped in place.

        `batch` is exactly the bytes that `header` describes and may be reused afterwards. Raises
        KafkaError and changes nothing: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
        INVALID_TIMESTAMP, RECORD_LIST_TOO_LARGE (beyond segment.bytes), KAFKA_STORAGE_ERROR (disk
        full, directory offline, out of descriptors).

        The bounds on timestamps are held against the batch's first and highest timestamp, which
        its header tells; Kafka opens the batch and looks at each.
        """
        size = header[1] + 12
        timestamp = header[8]
        append_time_ms = -1
        if self._stamps_time:
            timestamp = append_time_ms = self.home.clock.now_ms()
        elif timestamp >= 0:
            now_ms = self.home.clock.now_ms()
            if timestamp - now_ms > self._timestamp_after_ms or (
                now_ms - header[7] > self._timestamp_before_ms
            ):
                raise refusals.bad_timestamp(header, now_ms, self.config)
        if size > self._segment_bytes:
            raise refusals.too_large(size, self.config)
        if leader_epoch != self._durable_epoch or not self._is_ready:
            self._get_ready(leader_epoch, self.end_offset)
        has_producer = header[9] >= 0
        if has_producer:
            duplicate = self._producers.check(header)
            if duplicate is not None:
                return Appended(duplicate.first_offset, duplicate.timestamp, True)

        base_offset = self.end_offset
        last_offset = base_offset + header[6]
        if append_time_ms >= 0:
            stamp_append_time(batch, append_time_ms)
        stamp(batch, base_offset, leader_epoch)
        self._write(batch, size, base_offset, last_offset, timestamp)
        if has_producer:
            self._producers.update(header, base_offset, timestamp, self.home.clock.now_ms())
        return _new(Appended, (base_offset, append_time_ms, False))

    def append_replicated(self, batch: memoryview, header: BatchHeader) -> None:
        """Appends a leader's batch as it is: its offsets, epoch and timestamps stay.

        OFFSET_OUT_OF_RANGE where it does not begin at or after `end_offset`.
        """
        if header.base_offset < self.end_offset:
            raise refusals.out_of_range(self.tp, self.end_offset, FOREVER, header.base_offset)
        if header.leader_epoch != self._durable_epoch or not self._is_ready:
            self._get_ready(header.leader_epoch, header.base_offset)
        size, timestamp = header.size, header.max_timestamp
        self._write(batch, size, header.base_offset, header.last_offset, timestamp)
        if header.producer_id >= 0 and not header.is_control:
            now_ms = self.home.clock.now_ms()
            self._producers.update(header, header.base_offset, timestamp, now_ms)

    def _write(
        self, batch: memoryview, size: int, base_offset: int, last_offset: int, timestamp: int
    ) -> None:
        """The bytes as they are, indexes and times; KafkaError, and nothing changed."""
        segment = self.active
        file = segment.file
        try:
            if (
                file.size + size > self._segment_bytes
                or timestamp > segment.roll_at
                or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            ) and rolling.is_due(self, size, timestamp, last_offset):
                rolling.roll(self, base_offset)
                segment = self.active
                file = segment.file
            position = file.append((batch,))
        except DiskError as error:
            raise self.refusal(error) from error
        self.end_offset = last_offset + 1
        if timestamp > segment.max_timestamp:
            segment.max_timestamp = timestamp
            segment.max_timestamp_offset = last_offset
        if position == 0:
            segment.first_timestamp = timestamp
            rolling.plan(segment, self.config)
        if segment.bytes_since_index > segment.index_interval_bytes:
            rolling.index_batch(segment, last_offset, position, self.config)
        segment.bytes_since_index += size

    def truncate(self, offset: int) -> None:
        """Cuts every batch that holds `offset` or lies after it; durable when it returns.

        `end_offset` is then `offset` or, where that lay inside a batch, the batch's base offset.
        """
        trimming.truncate(self, offset)

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers; segments wholly below it are removed.

        Nothing happens where `offset` is not above `start_offset`; OFFSET_OUT_OF_RANGE beyond
        the end. The new start is on disk with the next checkpoint.
        """
        trimming.advance_start(self, offset)

    def retain(self, now_ms: int, limit_offset: int) -> list[str]:
        """Applies retention.ms and retention.bytes: removes the oldest segments that lie wholly
        below `limit_offset` (the high watermark), if the cleanup policy has "delete"; what lies
        below `start_offset` always goes. Returns the removed files' names."""
        return trimming.retain(self, now_ms, limit_offset)

    def flush_later(self, done: Callable[[DiskError | None], None]) -> None:
        """Group commit: `done` is called once all that was appended before this call is on disk.

        `flushed_offset` has moved by then. At most one flush is under way; callers that come
        meanwhile share the next. After a failure the directory is offline, and `done` gets the
        error from then on. `done` is never called from inside this call.
        """
        self.commit.flush_later(done)

    def flush_now(self) -> None:
        """The same here and now, for the end; DiskError where it fails."""
        self.commit.flush_now()

    def close(self, *, is_doomed: bool = False) -> None:
        """Indexes to their files, unless those are about to be deleted; descriptors back; no
        appends any more."""
        self.is_closed = True
        self.stop()
        for segment in self.segments:
            has_tail = segment is self.active or segment.index.tail or segment.time_index.tail
            if has_tail and not is_doomed:
                segment.finish()
            segment.close()
        for segment in self.doomed:
            segment.close()

    def reconfigure(self, config: LogConfig) -> None:
        """The topic's settings, from the next append on."""
        self.config = config
        self._segment_bytes = config.segment_bytes
        self._stamps_time = config.timestamp_type == LOG_APPEND_TIME
        self._timestamp_after_ms = config.timestamp_after_max_ms
        self._timestamp_before_ms = config.timestamp_before_max_ms
        self._is_ready = False

    # Producers

    @property
    def producers(self) -> ProducerStates:
        """What is known of idempotent producers; after a clean stop read when first needed."""
        if self._unloaded_producers_at is not None:
            trimming.reload_producers(self, self._unloaded_producers_at)
        return self._producers

    @producers.setter
    def producers(self, states: ProducerStates) -> None:
        self._producers = states
        self._unloaded_producers_at = None

    @property
    def needs_snapshot(self) -> bool:
        """Whether producers wrote since the last one; does not read them."""
        return self._unloaded_producers_at is None and self._producers.changed

    def expire_producers(self, now_ms: int) -> None:
        """Forgets those that wrote nothing for long, unless they are not even read yet."""
        if self._unloaded_producers_at is None:
            self._producers.expire(now_ms, self.config.producer_id_expiration_ms)

    def leave_producers_unread(self, end_offset: int) -> None:
        self._unloaded_producers_at = end_offset

    # Leader epochs

    def assign_epoch(self, epoch: int) -> None:
        """This replica leads from `end_offset` on; durable before the epoch's first append."""
        self.epochs.assign(epoch, self.end_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry:
        """The largest epoch at or below `epoch` and its end offset; (-1, -1) if unknown."""
        if not self._are_epochs_checked:
            self._are_epochs_checked = epoch_repair.check(self)
        return self.epochs.end_for(epoch, self.end_offset)

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, limit_offset: int, whole_first_batch: bool
    ) -> FileSlice | None:
        """A slice of one segment that begins with the batch that holds `offset`.

        It ends at or before `limit_offset` (a batch boundary) and at `max_bytes`, there perhaps in
        the middle of a batch; with `whole_first_batch` the first batch is whole however large.
        None where nothing lies between `offset` and `limit_offset` or fits. OFFSET_OUT_OF_RANGE
        below `start_offset` and beyond `end_offset`; CORRUPT_MESSAGE where damage is in the way.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise refusals.out_of_range(self.tp, self.start_offset, self.end_offset, offset)
        if offset >= limit_offset:
            return None
        return lookup.slice_from(self, offset, max_bytes, limit_offset, whole_first_batch)

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """How many bytes a reader at `offset` could get below `limit_offset`, over all segments."""
        return lookup.bytes_between(self, offset, limit_offset)

    def offset_for_timestamp(self, timestamp: int, limit_offset: int) -> TimedOffset | None:
        """The first record below `limit_offset` that is not older than `timestamp`."""
        return lookup.first_at_or_after(self, timestamp, limit_offset)

    def offset_of_max_timestamp(self, limit_offset: int) -> TimedOffset | None:
        """The first record that has the highest timestamp of all below `limit_offset`."""
        return lookup.with_max_timestamp(self, limit_offset)

    @property
    def size_bytes(self) -> int:
        return sum(segment.file.size for segment in self.segments)

    @property
    def unflushed_messages(self) -> int:
        return self.end_offset - self.flushed_offset

    def segment_index_for(self, offset: int) -> int:
        """Which segment would hold `offset`: the last that begins at or before it."""
        return max(0, bisect_right(self.bases, offset) - 1)

    # Refusals and the rare work before an append

    def _get_ready(self, leader_epoch: int, start_offset: int) -> None:
        error = self.home.offline
        if error is not None or self.is_closed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error or f"{self.tp} is closed"))
        if leader_epoch != self._durable_epoch:
            if leader_epoch >= 0:
                self.epochs.assign(leader_epoch, start_offset)
                self._write_epochs()
            self._durable_epoch = leader_epoch
        if not self._is_ready:
            segment = self.active
            try:
                _ = self.producers
                segment.load_times()
                if segment.file.size:
                    segment.first_timestamp = segment.batch_at(0).max_timestamp
            except (Damage, DiskError) as trouble:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(trouble)) from trouble
            segment.index_interval_bytes = self.config.index_interval_bytes
            rolling.plan(segment, self.config)
            self._is_ready = True

    def _write_epochs(self) -> None:
        try:
            self.home.disk.replace(
                f"{self.directory}/{EPOCH_CHECKPOINT}", encode_epochs(self.epochs.entries)
            )
        except DiskError as error:
            raise self.refusal(error) from error

    def epochs_changed(self) -> None:
        """The entries are not what the file says any more: written before the next append."""
        self._durable_epoch = -1

    def stop(self) -> None:
        """The next append looks first: the directory is offline, or the log was cut."""
        self._is_ready = False

    def refusal(self, error: DiskError) -> KafkaError:
        """What a client hears of a failed write; only lack of room or descriptors passes."""
        if isinstance(error, DiskFull | TooManyOpenFiles):
            self.home.refused(error)
        else:
            self.home.fail(error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
