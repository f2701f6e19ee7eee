"""One partition's log: segments of record batches, from `start_offset` up to `end_offset`.

An example with numbers. A topic with segment.bytes=1000 gets three batches of 400 bytes with ten
records each: offsets 0-9 and 10-19 go to `00000000000000000000.log`, 20-29 roll the log and go to
`00000000000000000020.log`; end_offset is 30. A flush syncs both files and the directory entry of
the second, then flushed_offset is 30. `read(13, ...)` returns a slice that begins with the batch
10-19: consumers skip the records before their offset. `truncate(13)` cuts whole batches only: the
log ends at 10, and flushed_offset is 10. `advance_start(5)` removes no file, but `read(4)` is then
out of range; with three segments `advance_start(20)` would remove the first.
"""

from collections.abc import Callable

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicId, TopicPartition
from sawlog.core.ports import DiskError, FileSlice, TooManyOpenFiles
from sawlog.protocol.control_records import EndTransactionMarker, read_marker
from sawlog.protocol.record_batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    stamp,
    stamp_append_time,
)
from sawlog.storage import log_errors
from sawlog.storage.append_origin import AppendOrigin
from sawlog.storage.appended import Appended
from sawlog.storage.batch_scan import Damage
from sawlog.storage.flusher import FlushScope
from sawlog.storage.leader_epochs import EpochEntry
from sawlog.storage.log_config import FOREVER, LOG_APPEND_TIME, LogConfig
from sawlog.storage.log_owner import LogOwner
from sawlog.storage.log_state import LogState, recreate_segments
from sawlog.storage.open_transactions import AbortedTransaction
from sawlog.storage.producer_state import ProducerStates
from sawlog.storage.retention_policy import RetentionPolicy
from sawlog.storage.segment import Segment
from sawlog.storage.segment_remover import SegmentRemover
from sawlog.storage.segment_writer import SegmentWriter
from sawlog.storage.segments import TimedOffset
from sawlog.storage.transaction_verification import VerificationGuard

logger = EventLogger(__name__)

_new = tuple.__new__


class Log:
    """The records of one partition, as whole batches in files.

    Invariants: start_offset <= end_offset; flushed_offset <= end_offset; every batch begins at or
    after the end of the batch before it; bytes below flushed_offset are on disk and never change;
    epochs and producers agree with the batches. A refused append changes nothing.
    """

    __slots__ = (
        "_is_ready",
        "_owner",
        "_remover",
        "_retention_policy",
        "_stamps_time",
        "_unsynced",
        "_writer",
        "config",
        "directory",
        "end_offset",
        "epochs",
        "flush",
        "flushed_offset",
        "high_watermark",
        "is_closed",
        "producers",
        "segments",
        "start_offset",
        "topic_id",
        "tp",
        "truncations",
    )

    def __init__(
        self, owner: LogOwner["Log"], tp: TopicPartition, config: LogConfig, state: LogState
    ) -> None:
        self._owner = owner
        self.tp = tp
        self.topic_id = state.topic_id
        self.directory = str(tp)
        self.is_closed = False
        self.truncations = 0  # how often it was truncated

        self.start_offset = state.start_offset
        self.end_offset = state.end_offset
        self.flushed_offset = state.flushed_offset  # at or above the recovery point on disk
        self.high_watermark = state.high_watermark  # of replication; checkpointed with the log
        self.segments = state.segments
        self.epochs = state.epochs
        self.producers = state.producers
        self._unsynced = state.unsynced
        self._remover = SegmentRemover(
            owner.disk, owner.timer, self.directory, self._segments_removed, owner.refusal
        )
        self.flush = owner.flusher.attach(self)

        self._writer = SegmentWriter(
            owner, self.directory, state.segments, state.unsynced, config, on_rolled=self._rolled
        )
        self._is_ready = False  # whether an append may skip `_prepare_append`
        self.producers.transactions.commit(self.high_watermark)
        self.reconfigure(config)

    # Appending

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> Appended:
        """Append one validated batch as the leader, with the next offsets, stamped in place.

        `batch` is exactly the bytes that `header` describes and may be reused then. `guard` is that
        of a transaction which begins here, `transaction_version` that of a marker. KafkaError and
        nothing changed: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
        TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR (full, offline, no descriptors),
        RECORD_LIST_TOO_LARGE (beyond segment.bytes).
        """
        size = header[1] + 12
        timestamp = header[8]
        append_time_ms = -1
        if self._stamps_time:
            timestamp = append_time_ms = self._owner.clock.now_ms()
        if size > self._writer.segment_bytes:
            raise log_errors.too_large(size, self.config)
        if leader_epoch != self.epochs.durable or not self._is_ready:
            self._prepare_append(leader_epoch, self.end_offset)
        has_producer = header[9] >= 0
        marker: EndTransactionMarker | None = None
        if has_producer:
            if header[5] & CONTROL:
                duplicate = None
                marker = self.producers.checked_marker(batch, header, origin, transaction_version)
            elif header[5] & TRANSACTIONAL:
                duplicate = self.producers.check_transactional(
                    header, origin, guard, verifies=self.config.verifies_transactions
                )
            else:
                duplicate = self.producers.check(header, origin)
            if duplicate is not None:
                return Appended(duplicate.first_offset, duplicate.timestamp, True)

        base_offset = self.end_offset
        aborted = marker and self.producers.aborted_by(header, marker, base_offset)
        if append_time_ms >= 0:
            stamp_append_time(batch, append_time_ms)
        stamp(batch, base_offset, leader_epoch)
        last_offset = base_offset + header[6]
        try:
            self._writer.write(
                batch, size, base_offset, last_offset, timestamp, base_offset, aborted
            )
        except DiskError as error:
            refusal = self._owner.refusal(error)
            self.producers.refuse(header)
            raise refusal from error
        self.end_offset = last_offset + 1
        if has_producer:
            self.producers.take(header, base_offset, timestamp, marker)
        return _new(Appended, (base_offset, append_time_ms, False))

    def append_as_follower(self, batch: memoryview, header: BatchHeader) -> None:
        """Append a batch of the leader with the offsets, epoch and timestamps that it has.
        OFFSET_OUT_OF_RANGE if it begins before `end_offset`."""
        base_offset = header.base_offset
        if base_offset < self.end_offset:
            raise log_errors.out_of_range(self.tp, self.end_offset, FOREVER, base_offset)
        marker = read_marker(batch) if header.is_control and header.count else None
        timestamp = header.max_timestamp
        try:
            if header.leader_epoch != self.epochs.durable or not self._is_ready:
                self._prepare_append(header.leader_epoch, base_offset)
            aborted = marker and self.producers.aborted_by(header, marker, base_offset)
            self._writer.write(
                batch,
                header.size,
                base_offset,
                header.last_offset,
                timestamp,
                self.end_offset,
                aborted,
            )
        except KafkaError:
            self.remove_unused_epoch()
            raise
        except DiskError as error:
            refusal = self._owner.refusal(error)
            self.remove_unused_epoch()
            raise refusal from error
        self.end_offset = header.next_offset
        self.producers.take(header, base_offset, timestamp, marker)

    def _rolled(self) -> None:
        self._is_ready = False
        self._owner.rolled(self)

    def _prepare_append(self, leader_epoch: int, start_offset: int) -> None:
        """Do the checks and loads that only the first append after a change needs."""
        error = self._owner.offline
        if error is not None or self.is_closed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error or f"{self.tp} is closed"))
        try:
            self.epochs.make_durable(leader_epoch, start_offset)
        except DiskError as failure:
            raise self._owner.refusal(failure) from failure
        if not self._is_ready:
            try:
                self._load_producers()
                self.producers.repair_index(self.segments, self.segments.active, self.end_offset)
                self._writer.prepare()
            except (Damage, DiskError) as failure:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
            self._is_ready = True

    # Truncation and retention

    def truncate(self, offset: int) -> None:
        """Remove every batch that holds `offset` or lies after it; durable when this returns.

        `end_offset` is then `offset` or, if that lay inside a batch, the batch's base offset. The
        recovery point on disk is lowered first: batches that are appended in the place of removed
        ones must never be covered by an old recovery point.
        """
        if offset >= self.end_offset:
            return
        self._owner.abort_cleaning(self)
        try:
            end_offset, position = self.segments.find_cut(offset)
        except Damage as damage:
            raise log_errors.damaged(self.tp, damage) from damage
        self._cut(end_offset, lambda: self._truncate(end_offset, position))

    def _cut(self, lowest_offset: int, cut: Callable[[], None]) -> None:
        try:
            self._owner.lower_checkpoints(self, lowest_offset)
        except DiskError as error:
            raise self._owner.refusal(error) from error
        try:
            cut()
        except DiskError as error:
            self._owner.fail(error)  # some files are cut and some are not: no append may follow
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _truncate(self, end_offset: int, position: int) -> None:
        logger.info(
            "log truncated", log=str(self.tp), offset=end_offset, old_end_offset=self.end_offset
        )
        self._discard_flushes(end_offset)
        removed = self.segments.cut(self.segments.number_of(end_offset))
        self._unsynced.forget(file for later in removed for file in later.files())
        for later in reversed(removed):
            later.remove(self._owner.disk, self.directory)
        self.segments.active.truncate(end_offset, position)
        self.end_offset = end_offset
        self.start_offset = min(self.start_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.epochs.truncate_end(end_offset)
        self._owner.disk.sync_directory(self.directory)
        self.producers.truncate(self.segments, end_offset, self.config.producer_id_expiration_ms)
        self.producers.transactions.commit(self.high_watermark)

    def restart_at(self, offset: int) -> None:
        """Remove all records and continue at `offset`; durable when this returns."""
        self._owner.abort_cleaning(self)
        lowest_offset = min(offset, self.segments.base_offset)
        self._cut(lowest_offset, lambda: self._restart_at(offset, lowest_offset))
        self._owner.start_moved(self)

    def _restart_at(self, offset: int, lowest_offset: int) -> None:
        logger.info(
            "log restarted", log=str(self.tp), offset=offset, old_end_offset=self.end_offset
        )
        self._discard_flushes(lowest_offset)
        self._writer.reset()
        recreate_segments(
            self._owner, self.directory, self.segments, offset, self.config, self._unsynced
        )
        self.start_offset = self.end_offset = offset
        self.flushed_offset = self.high_watermark = offset
        self.epochs.truncate_end(0)
        self.producers.remove_above(-1)
        self.producers.truncate(self.segments, offset, self.config.producer_id_expiration_ms)

    def _discard_flushes(self, end_offset: int) -> None:
        """No flush or checkpoint that is under way covers records from `end_offset` on."""
        self.flushed_offset = min(self.flushed_offset, end_offset)
        self.flush.truncated(end_offset)
        self.truncations += 1
        self._is_ready = False

    def advance_start(self, offset: int) -> None:
        """Move `start_offset` to `offset` and remove the segments that lie wholly below it.

        Does nothing if `offset` is not above `start_offset`; OFFSET_OUT_OF_RANGE beyond the end.
        The new start is on disk with the next checkpoint.
        """
        if offset <= self.start_offset:
            return
        if offset > self.end_offset:
            raise log_errors.out_of_range(self.tp, self.start_offset, self.end_offset, offset)
        self._set_start(offset)
        if self.segments.number_of(offset) > 0:
            self._owner.abort_cleaning(self)  # which may replace segments
            self._drop_oldest(self.segments.number_of(offset))
        self._owner.start_moved(self)

    def apply_retention(self, now_ms: int, limit_offset: int) -> list[str]:
        """Apply retention.ms and retention.bytes to the segments that lie wholly below
        `limit_offset` (the high watermark). Segments below `start_offset` are removed whatever the
        cleanup policy. A log that is being cleaned is left to the next call. Returns the names of
        the removed files."""
        if self._owner.is_cleaning(self):
            return []
        segments = self.segments
        expired = self._retention_policy.expired(
            [segment.file.size for segment in segments],
            (segment.newest_ms for segment in segments),
            now_ms,
        )
        expired = max(expired, segments.count_below(self.start_offset, self.end_offset))
        expired = min(expired, segments.count_below(limit_offset, self.end_offset))
        if expired == 0:
            return []
        if expired == len(segments):
            try:
                self._writer.roll(self.end_offset)
            except DiskError as error:
                raise self._owner.refusal(error) from error
        first_kept = segments[expired].base_offset
        if first_kept > self.start_offset:
            self._set_start(first_kept)
        removed = self._drop_oldest(expired)
        self._owner.start_moved(self)
        return removed

    def _set_start(self, offset: int) -> None:
        self.start_offset = offset
        if offset > self.high_watermark:  # of a follower: the leader has deleted them
            self.set_high_watermark(offset)
        self.epochs.truncate_start(offset)

    def _drop_oldest(self, count: int) -> list[str]:
        """Remove the first `count` segments, never the active one; returns their files' names. The
        log is not being cleaned."""
        count = min(count, len(self.segments) - 1)
        if count <= 0:
            return []
        removed = self.segments.drop(count)
        self.flushed_offset = max(self.flushed_offset, self.segments.base_offset)
        self._unsynced.forget(file for segment in removed for file in segment.files())
        logger.info(
            "segments removed",
            log=str(self.tp),
            count=count,
            first_kept=self.segments.base_offset,
        )
        self._remover.remove(removed)
        return [name for segment in removed for name in segment.names()]

    def replace_segments(self, old: list[Segment], new: Segment) -> None:
        """Put a cleaned segment in the place of the closed segments that it was made from, whose
        files were renamed and are unlinked after file.delete.delay.ms."""
        self.segments.replace(old, new)
        self._unsynced.forget(file for segment in old for file in segment.files())
        self._remover.unlink_later(old)

    def _segments_removed(self) -> None:
        self.producers.remove_below(self.segments.base_offset)

    # Flushing

    def flush_now(self) -> None:
        """Flush before this returns; DiskError where that fails."""
        is_dirty = self.end_offset > self.flushed_offset
        active = self.segments.active.file if is_dirty else None
        files, directories = self._unsynced.take_all(active)
        for directory in directories:
            self._owner.disk.sync_directory(directory)
        for file in files:
            file.sync()
        self.flushed_offset = self.end_offset

    def begin_flush(self) -> FlushScope:
        """For the flusher: what has to be synced to flush everything that is written."""
        error = self._owner.offline
        if self.is_closed:
            error = DiskError(self.directory, "the log is closed")
        active = self.segments.active
        is_dirty = self.end_offset > self.flushed_offset
        if is_dirty:
            active.remember(self.end_offset, active.file.size)
        files, directories = self._unsynced.begin(active.file if is_dirty else None)
        return FlushScope(files, directories, error)

    def end_flush(self, target: int, error: DiskError | None) -> DiskError | None:
        """For the flusher: apply the outcome; returns the error that waiters get."""
        error = error or self._owner.offline
        if isinstance(error, TooManyOpenFiles):
            # The sync was not attempted, so unlike a failed fsync it may be tried again.
            self._unsynced.retry(self.segments.active.file)
            return error
        self._unsynced.end()
        if error is not None:
            if not self.is_closed:
                self._owner.fail(error)
        elif target > self.flushed_offset:
            self.flushed_offset = target
            self._owner.flushed(self)
        return error

    # Life cycle

    def reconfigure(self, config: LogConfig) -> None:
        """Apply the topic's settings from the next append on."""
        self.config = config
        self._writer.reconfigure(config)
        self._retention_policy = RetentionPolicy.of(config)
        self._stamps_time = config.timestamp_type == LOG_APPEND_TIME
        self._remover.set_delay(config.file_delete_delay_ms)
        self._is_ready = False
        if "compact" not in config.cleanup_policy:
            self._owner.abort_cleaning(self)

    def identify(self, topic_id: TopicId) -> None:
        """Set the topic id of a log whose partition.metadata was lost."""
        self.topic_id = topic_id

    def set_high_watermark(self, offset: int) -> None:
        """Set the high watermark of replication, which the next checkpoint writes."""
        assert offset <= self.end_offset
        self.high_watermark = offset
        if self.producers.transactions.first_unstable is not None:
            self.producers.transactions.commit(offset)
        self._owner.high_watermark_moved()

    def stop_appends(self) -> None:
        """The data directory went offline: the next append fails."""
        self._is_ready = False

    def prepare_clean_stop(self, recovery_point: int) -> None:
        """Flush, and write the snapshot and indexes that let the next start use the files without
        reading them. `recovery_point` is the one on disk. DiskError where that fails."""
        self.flush_now()
        producers = self.producers
        if producers.needs_snapshot or self.end_offset != recovery_point:
            if producers.needs_snapshot or producers.latest_snapshot != self.end_offset:
                self._load_producers()
                producers.write_now(self.end_offset, self.segments)
            # If the next segment begins at this offset, nothing checks these indexes again.
            for file in self.segments.active.complete():
                file.sync()
        self._remover.remove_now()

    def close(self, *, is_deleted: bool = False) -> None:
        """Write the indexes, unless the files are about to be deleted, and close all files."""
        self._owner.abort_cleaning(self)
        self.is_closed = True
        self._is_ready = False
        active = self.segments.active
        for segment in self.segments:
            if (segment is active or segment.has_unwritten_entries) and not is_deleted:
                segment.finish()
            segment.close()
        self._remover.close()
        self.producers.close()

    # Transactions

    def begin_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """The guard that the first batch of a transaction needs (KIP-890); None if the transaction
        is open here already. INVALID_PRODUCER_EPOCH if the producer is fenced."""
        self._load_producers()
        return self.producers.begin_verification(
            producer_id, sequence, epoch, supports_epoch_bump=supports_epoch_bump
        )

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open, or whose marker is not committed
        yet; None without any."""
        self._load_producers()
        first_offset = self.producers.transactions.first_unstable
        return first_offset if first_offset is None else max(first_offset, self.start_offset)

    @property
    def last_stable_offset(self) -> int:
        """Every record below it is committed and in no open transaction."""
        first = self.first_unstable_offset
        return self.high_watermark if first is None else min(first, self.high_watermark)

    def aborted_transactions(self, start_offset: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records from `start_offset` up to `end`, in the order of
        their markers. KAFKA_STORAGE_ERROR if the disk fails."""
        with log_errors.reading(self.tp):
            for segment in self.segments.since(start_offset):
                self.producers.repair_index(self.segments, segment, self.end_offset)
            return self.segments.aborted_between(start_offset, end)

    # Producer state

    @property
    def producer_states(self) -> ProducerStates:
        """The state of the log's producers; after a clean stop it is loaded on first use."""
        self._load_producers()
        return self.producers.states

    def encode_producers(self) -> bytes:
        """The content of a producer snapshot at `end_offset`, which counts as saved from now on."""
        self._load_producers()
        return self.producers.encode()

    def _load_producers(self) -> None:
        if self.producers.is_deferred:
            self.producers.load_deferred(self.segments, self.config.producer_id_expiration_ms)
            self.producers.transactions.commit(self.high_watermark)

    def write_index_tails(self) -> None:
        """Write the index entries of the active segment that are in memory to their files."""
        self.segments.active.write_tails()

    # Leader epochs

    def assign_epoch(self, epoch: int) -> None:
        """This replica leads from `end_offset` on; durable before the epoch's first append."""
        self.epochs.assign(epoch, self.end_offset)

    def remove_unused_epoch(self) -> None:
        """Remove an epoch without records: a follower may get records of an earlier one next."""
        self.epochs.truncate_end(self.end_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry:
        """The largest epoch at or below `epoch` and its end offset; (-1, -1) if there is none."""
        return self.epochs.end_for(epoch, self.segments, self.start_offset, self.end_offset)

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, limit_offset: int, whole_first_batch: bool
    ) -> FileSlice | None:
        """A slice of one segment that begins with the batch that holds `offset`.

        It ends at or before `limit_offset` (a batch boundary) and at `max_bytes`, there perhaps in
        the middle of a batch; with `whole_first_batch` the first batch is whole however large.
        None if no batch lies between `offset` and `limit_offset`, or none fits. OFFSET_OUT_OF_RANGE
        below `start_offset` and beyond `end_offset`; CORRUPT_MESSAGE at a damaged batch.
        """
        end_offset = self.end_offset
        if not self.start_offset <= offset <= end_offset:
            raise log_errors.out_of_range(self.tp, self.start_offset, end_offset, offset)
        if offset >= limit_offset:
            return None
        try:
            return self.segments.slice_from(
                offset,
                max_bytes,
                limit_offset=limit_offset,
                end_offset=end_offset,
                whole_first_batch=whole_first_batch,
            )
        except (Damage, DiskError) as error:
            raise log_errors.not_readable(self.tp, error) from error

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """The bytes that a consumer at `offset` can read below `limit_offset`."""
        offset = max(offset, self.start_offset)
        limit_offset = min(limit_offset, self.end_offset)
        with log_errors.reading(self.tp):
            return self.segments.bytes_between(offset, limit_offset, self.end_offset)

    def offset_for_timestamp(self, timestamp: int, limit_offset: int) -> TimedOffset | None:
        """The first record below `limit_offset` that is not older than `timestamp`."""
        with log_errors.reading(self.tp):
            return self.segments.first_at_or_after(
                timestamp, start_offset=self.start_offset, limit_offset=limit_offset
            )

    def offset_of_max_timestamp(self, limit_offset: int) -> TimedOffset | None:
        """The first record that has the highest timestamp of all below `limit_offset`."""
        with log_errors.reading(self.tp):
            return self.segments.with_max_timestamp(
                start_offset=self.start_offset, limit_offset=limit_offset
            )

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes
