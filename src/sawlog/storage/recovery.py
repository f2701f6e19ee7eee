"""Opens a log as a stop or a crash left it.

Batches below the recovery point are trusted: only those after the last index entry are read. Every
batch at or after it is checked against its CRC; the first bad one ends the log, and the good ones
are written again: pages of a failed fsync look sound, and no later fsync writes them. Indexes,
leader epochs and producer state are brought up to date from the batches in the same pass. The
recovery point does not move here (KAFKA-10101). docs/decisions/0005 has the reasons.
"""

from dataclasses import dataclass, field
from functools import partial

from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NO_TOPIC_ID, TopicId, TopicPartition
from sawlog.protocol.record_batch import BatchHeader
from sawlog.storage import log_files
from sawlog.storage.batch_scan import Damage, check, sound_batch, walk_past_damage
from sawlog.storage.leader_epoch_file import LeaderEpochFile
from sawlog.storage.log import Log
from sawlog.storage.log_config import LogConfig
from sawlog.storage.log_files import DamagedLog
from sawlog.storage.log_owner import LogOwner
from sawlog.storage.log_state import LogState, create_segment
from sawlog.storage.producer_state_store import ProducerStateStore
from sawlog.storage.roll_policy import MAX_RELATIVE_OFFSET
from sawlog.storage.segment import LOOK_UP_BYTES, Segment
from sawlog.storage.segment_swap import complete_swaps
from sawlog.storage.segments import Segments
from sawlog.storage.unsynced_files import UnsyncedFiles

logger = EventLogger(__name__)

UNKNOWN_EPOCH = 2**31 - 1
"""The last leader epoch of a log without its epochs: it may be any."""


@dataclass(slots=True)
class RecoveryReport:
    """What opening the logs of a data directory had to do; all zero after a clean stop."""

    recovered_logs: int = 0
    checked_bytes: int = 0  # of record batches whose CRC was checked
    truncated_bytes: int = 0  # torn tails, and the segments after them
    damaged_logs: int = 0  # with a bad batch, or a gap, below the recovery point
    lost: dict[TopicPartition, DamagedLog] = field(default_factory=dict)
    """The logs that ended before their recovery point."""
    corrupt_from: dict[TopicPartition, int] = field(default_factory=dict)
    """The offset of the first bad batch of each other log with one below its recovery point."""

    def add(self, recovery: "LogRecovery") -> None:
        """Add the outcome of one log that had to be recovered."""
        self.recovered_logs += 1
        self.checked_bytes += recovery.checked_bytes
        self.truncated_bytes += recovery.truncated_bytes
        self.damaged_logs += recovery.is_damaged
        if recovery.lost_from is not None:
            self.lost[recovery.tp] = DamagedLog(recovery.lost_from, recovery.last_epoch)
        elif recovery.damaged_from is not None:
            self.corrupt_from[recovery.tp] = recovery.damaged_from


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The offsets of one log in the checkpoint files; None where a file is missing or corrupt."""

    recovery_point: int | None
    start_offset: int | None
    high_watermark: int = 0


def open_log(
    owner: LogOwner[Log],
    tp: TopicPartition,
    config: LogConfig,
    checkpointed: Checkpointed,
    *,
    is_clean: bool = False,
    report: RecoveryReport,
) -> Log:
    """Open the log in the directory `tp`.

    After a clean stop only the end of the log is read, if it is at the recovery point. Without a
    recovery point the whole log is checked. Afterwards `flushed_offset` is the recovery point or,
    if the log turned out to be shorter, its end: the caller must then lower the checkpoint.
    """
    directory = str(tp)
    names = complete_swaps(
        owner.disk, directory, owner.disk.list(directory), partial(_end_of_swap, owner, directory)
    )
    bases, snapshots = _list_files(owner, directory, names)
    producers = ProducerStateStore(
        owner.disk, owner.clock, directory, snapshots, on_failure=owner.fail
    )
    topic_id = _read_topic_id(owner, directory, names)
    if not bases:
        return Log(
            owner,
            tp,
            config,
            _create_missing(owner, tp, topic_id, config, checkpointed, producers, report),
        )
    recovery = LogRecovery(owner, tp, config, bases, producers, checkpointed)
    if log_files.EPOCH_CHECKPOINT in names:
        recovery.load_epochs()
    if is_clean and recovery.ends_at_recovery_point():
        recovery.trust()
    else:
        recovery.run()
        report.add(recovery)
    return Log(owner, tp, config, recovery.finish(topic_id, is_clean=is_clean))


def _end_of_swap(owner: LogOwner[Log], directory: str, base_offset: int) -> int:
    """The offset after the last batch of a cleaned segment that was not swapped in completely."""
    segment = Segment(
        owner.disk,
        directory,
        base_offset,
        created_ms=owner.clock.now_ms(),
        index_interval_bytes=LogConfig().index_interval_bytes,
        is_new=False,
        suffix=log_files.SWAP,
    )
    end_offset = base_offset
    for _, header in segment.undamaged_from(0):
        end_offset = header.next_offset
    segment.close()
    return end_offset


def _create_missing(
    owner: LogOwner[Log],
    tp: TopicPartition,
    topic_id: TopicId,
    config: LogConfig,
    checkpointed: Checkpointed,
    producers: ProducerStateStore,
    report: RecoveryReport,
) -> LogState:
    """The state of a log whose directory holds no segment; no offset is assigned a second time."""
    start_offset, point = checkpointed.start_offset or 0, checkpointed.recovery_point or 0
    if point > start_offset:
        report.lost[tp] = DamagedLog(start_offset, UNKNOWN_EPOCH)
        logger.error(
            "all segments of a log are missing",
            log=str(tp),
            lost_from=start_offset,
            lost_up_to=point,
        )
    base_offset = max(start_offset, point)
    return LogState.empty(owner, str(tp), topic_id, config, producers, base_offset=base_offset)


class LogRecovery:
    """The recovery of one log: one pass over the segments that reach beyond the recovery point."""

    def __init__(
        self,
        owner: LogOwner[Log],
        tp: TopicPartition,
        config: LogConfig,
        bases: list[int],
        producers: ProducerStateStore,
        checkpointed: Checkpointed,
    ) -> None:
        self._owner = owner
        self.tp = tp
        self._directory = str(tp)
        self._config = config
        self._checkpointed = checkpointed
        now_ms = owner.clock.now_ms()
        self._segments = Segments(
            [
                Segment(
                    owner.disk,
                    self._directory,
                    base,
                    created_ms=now_ms,
                    index_interval_bytes=config.index_interval_bytes,
                    is_new=False,
                )
                for base in bases
            ]
        )
        self._producers = producers
        self.epochs = LeaderEpochFile(owner.disk, self._directory)
        self._unsynced = UnsyncedFiles(self._directory)
        self._point = point = max(checkpointed.recovery_point or 0, bases[0])
        # Records below this were deleted. A start offset is never beyond the high watermark, which
        # is written before it: one that is beyond both checkpoints is wrong.
        known = max(point, checkpointed.high_watermark)
        start_offset = checkpointed.start_offset or 0
        self._deleted_below = start_offset if start_offset <= known else 0
        # Offsets below this were assigned, by another file than the recovery point checkpoint.
        has_snapshot = point in producers.snapshot_offsets
        self._assigned_below = point if has_snapshot else checkpointed.high_watermark
        # Compaction leaves gaps between segments, but only below the recovery point. A gap above it
        # is lost data: a later batch would make the producer's retry of it a duplicate.
        self._allows_gaps = checkpointed.recovery_point is None
        self._next_offset = point
        self._end_offset = point
        self._confirmed: list[int] = []  # snapshots beyond the point that agree with the batches
        self._ends_in_damage = False  # before the recovery point, and no sound batch follows
        self.is_damaged = False  # below the recovery point
        self.damaged_from: int | None = None  # the offset of the first bad batch there
        self.lost_from: int | None = None  # the first lost offset, if the end is missing
        self.last_epoch = UNKNOWN_EPOCH  # before anything was lost
        self.checked_bytes = 0
        self.truncated_bytes = 0

    def load_epochs(self) -> None:
        """Read the checkpoint of leader epochs. An epoch is in it before its first batch is."""
        self.epochs.load()
        if self.epochs.latest >= 0:
            self.last_epoch = self.epochs.latest

    # After a clean stop

    def ends_at_recovery_point(self) -> bool:
        """Whether the log ends at its recovery point, by the last index entry and the batches
        after it."""
        end = self._segments.active.end_by_index()
        if end is None or end.next_offset != self._point:
            return False
        if end.leader_epoch >= 0 and end.leader_epoch != self.epochs.epoch_at(self._point - 1):
            self.epochs.clear()
        return True

    def trust(self) -> None:
        """After a clean stop: read nothing; producers are loaded when they are needed."""
        self._end_offset = self._point
        self._producers.remove_above(self._point)
        self._producers.defer(self._point)

    # After a crash

    def run(self) -> None:
        """Check all batches from the recovery point on; truncate the log at the first bad one."""
        self._remove_deleted_segments()
        expiration_ms = self._config.producer_id_expiration_ms
        self._producers.restore(self._segments, self._point, expiration_ms)
        self._check_segments()
        if self._end_offset < self._point:
            self.is_damaged = True
            is_before = self.damaged_from is not None and self.damaged_from < self._end_offset
            self.lost_from = self.damaged_from if is_before else self._end_offset
            self._skip_missing(self._point if self._ends_in_damage else self._assigned_below)
        if self._deleted_below > self._end_offset:
            self._continue_at(self._deleted_below)
        self._producers.expire(expiration_ms)

    def _remove_deleted_segments(self) -> None:
        """Remove the segments below the start offset again: a power loss has brought their entries
        back, and not always their content, because what is deleted need not be flushed."""
        removed = self._segments.drop(self._segments.number_of(self._deleted_below))
        for segment in removed:
            segment.remove(self._owner.disk, self._directory)
        if removed:
            self._point = max(self._point, self._segments.base_offset)
            self._next_offset = self._end_offset = self._point

    def _check_segments(self) -> None:
        # A segment that ends right at the point counts too: its indexes may not be on disk yet.
        first = self._segments.number_of(self._point - 1)
        for number, segment in list(enumerate(self._segments))[first:]:
            if number > first and not self._may_follow(segment):
                self._delete_segments(number, "a segment before it is missing or truncated")
                break
            self._next_offset = segment.base_offset
            base_offset = segment.base_offset
            if base_offset > self._point and self._producers.confirm(base_offset):
                self._confirmed.append(base_offset)
            if self._check_segment(segment):
                self._delete_segments(number + 1, "the segment before it was truncated")
                break
        self._end_offset = max(self._next_offset, self._segments.active.base_offset)
        kept_from = min(self._point, self._end_offset)
        self._producers.remove_above(kept_from, kept=self._confirmed)
        # After kill -9 these bytes may be in the page cache only, and so may the indexes: nothing
        # checks them again once the recovery point is beyond their segment.
        for segment in list(self._segments)[first:-1]:
            self._unsynced.add(segment.complete())
        self._unsynced.note_changed(self._segments.active.transaction_index.files())
        # Segments after the damage may reach the recovery point.
        self._ends_in_damage = self._ends_in_damage and self._end_offset < self._point

    def _check_segment(self, segment: Segment) -> bool:
        """Check one segment from the recovery point on; returns whether it had to be truncated.

        The batches are then written again, with the same bytes: if an fsync of the last process
        failed, they are in the page cache and look sound, but no later sync would write them.
        """
        position, is_truncated = 0, False
        self._producers.repair_index(self._segments, segment, self._point)
        segment.transaction_index.drop_from(self._point)
        try:
            position = self._walk_to_point(segment)
            self._check_from(segment, position)
        except Damage as damage:
            self._truncate(segment, damage)
            is_truncated = True
        segment.rewrite_from(min(position, segment.file.size))
        return is_truncated

    def _may_follow(self, segment: Segment) -> bool:
        """Whether a segment may follow; one below the recovery point always may."""
        base = segment.base_offset
        return base == self._next_offset or (
            base > self._next_offset and (self._allows_gaps or base <= self._point)
        )

    def _walk_to_point(self, segment: Segment) -> int:
        """Bring the indexes up to the recovery point, by headers alone; returns its position.

        Damage is reported, and the walk continues with the next sound batch: nothing is truncated.
        """
        start, end = segment.resume(self._point), segment.file.size
        if segment.base_offset >= self._point:
            return start
        if start:  # the index has checked the batch there
            self._next_offset = segment.batch_at(start).base_offset
        damages: list[Damage] = []

        def note(damage: Damage, next_batch: BatchHeader | None) -> None:
            damages.append(damage)
            if self._next_offset < self._point:
                self._allows_gaps = True
                self._report_damage(damage, next_batch)

        for position, header in walk_past_damage(
            segment.file, start, end, note, chunk_bytes=LOOK_UP_BYTES
        ):
            if self._next_offset >= self._point:
                # Damage that begins at the point itself is a torn tail.
                return damages[-1].position if damages else position
            if not self._fits(segment, position, header):
                reason = f"offsets {header.base_offset} to {header.last_offset} out of order"
                next_batch = sound_batch(segment.file, position + header.size, end)
                note(Damage(segment.file, position, reason), next_batch)
                continue
            if header.base_offset >= self._point:
                return position
            if damages:
                segment.index_next_batch()  # so that an entry points past the damage
                damages.clear()
            self._replay(segment, position, header)
        if damages and self._next_offset >= self._point:
            return damages[-1].position
        is_within = self._point - segment.base_offset <= MAX_RELATIVE_OFFSET
        self._ends_in_damage = bool(damages) and is_within
        return end

    def _fits(self, segment: Segment, position: int, header: BatchHeader) -> bool:
        """Whether the offsets of a batch below the recovery point are plausible. No CRC covers the
        base offset: if it leaves a gap, the next batch decides whether the gap is real."""
        if header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            return False
        is_next = header.base_offset == self._next_offset
        if is_next and header.last_offset_delta == header.count - 1:
            return True
        file = segment.file
        if header.base_offset < self._next_offset or not sound_batch(file, position, file.size):
            return False
        if is_next:
            return True
        next_batch = sound_batch(file, position + header.size, file.size)
        if next_batch is None or next_batch.base_offset < self._next_offset:
            return self._allows_gaps or header.base_offset < self._point
        return next_batch.base_offset >= header.next_offset

    def _check_from(self, segment: Segment, start: int) -> None:
        """Check every batch by its CRC and replay it; Damage at the first bad one."""
        for position, header in check(segment.file, start, segment.file.size):
            self._replay(segment, position, header)
            self.checked_bytes += header.size
            if header.leader_epoch > self.epochs.latest:
                self.epochs.assign(header.leader_epoch, header.base_offset)
            aborted = self._producers.replay(segment, position, header)
            if aborted is not None:
                segment.transaction_index.add(aborted)

    def _replay(self, segment: Segment, position: int, header: BatchHeader) -> None:
        if header.base_offset < self._next_offset:
            raise Damage(segment.file, position, f"offset {header.base_offset} a second time")
        if header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            raise Damage(
                segment.file, position, f"offset {header.base_offset} beyond the segment's range"
            )
        segment.replay(position, header)
        self._next_offset = header.next_offset

    def _report_damage(self, damage: Damage, next_batch: BatchHeader | None) -> None:
        self.is_damaged = True
        if self.damaged_from is None:
            self.damaged_from = self._next_offset
        logger.error(
            "damage below the recovery point",
            log=str(self.tp),
            path=damage.file.path,
            from_offset=self._next_offset,
            next_good_offset=next_batch.base_offset if next_batch else None,
            recovery_point=self._point,
            position=damage.position,
            reason=damage.reason,
        )

    def _truncate(self, segment: Segment, damage: Damage) -> None:
        """Truncate the segment before the bad batch, durably: batches that are appended next must
        not be followed by old bytes after another crash."""
        logger.warning(
            "torn tail truncated",
            log=str(self.tp),
            path=segment.file.path,
            from_offset=self._next_offset,
            recovery_point=self._point,
            position=damage.position,
            bytes=segment.file.size - damage.position,
            reason=damage.reason,
        )
        self.truncated_bytes += segment.file.size - damage.position
        segment.file.truncate(damage.position)
        segment.file.sync()

    def _delete_segments(self, number: int, reason: str) -> None:
        deleted = self._segments.cut(number - 1)
        for segment in reversed(deleted):
            logger.warning(
                "segment deleted",
                log=str(self.tp),
                path=segment.file.path,
                from_offset=segment.base_offset,
                bytes=segment.file.size,
                reason=reason,
            )
            self.truncated_bytes += segment.file.size
            segment.remove(self._owner.disk, self._directory)
        if deleted:
            self._owner.disk.sync_directory(self._directory)

    def _skip_missing(self, assigned_below: int) -> None:
        """The log ends before its recovery point: either synced records are gone, or the checkpoint
        is wrong. If the high watermark or a producer snapshot is higher than the end too, the
        offsets in between were assigned, and the log continues after them."""
        next_offset = min(self._point, assigned_below)
        logger.error(
            "log ends before its recovery point",
            log=str(self.tp),
            end_offset=self._end_offset,
            recovery_point=self._point,
            lost_up_to=max(next_offset, self._end_offset),
        )
        if next_offset > self._end_offset:
            self._continue_at(next_offset)

    def _continue_at(self, offset: int) -> None:
        """Let the log go on after a gap."""
        self._unsynced.add(self._segments.active.complete())
        self._segments.append(
            create_segment(self._owner, self._directory, offset, self._config, self._unsynced)
        )
        self._end_offset = offset

    # Result

    def finish(self, topic_id: TopicId, *, is_clean: bool) -> LogState:
        """The parts of the recovered log."""
        first, end_offset = self._segments.base_offset, self._end_offset
        start_offset = self._checkpointed.start_offset
        if start_offset is None or not first <= start_offset <= end_offset:
            start_offset = first
        self.epochs.truncate_end(end_offset)
        self.epochs.truncate_start(start_offset)
        self.epochs.complete(self._segments, start_offset, end_offset)
        if not is_clean:  # a crash before the first flush: the entries may not be durable
            self._unsynced.note_new_entry()
        return LogState(
            topic_id,
            self._segments,
            self._producers,
            self.epochs,
            self._unsynced,
            start_offset,
            end_offset,
            flushed_offset=min(self._point, end_offset),
            high_watermark=min(max(self._checkpointed.high_watermark, start_offset), end_offset),
        )


def _list_files(
    owner: LogOwner[Log], directory: str, names: list[str]
) -> tuple[list[int], list[int]]:
    """The base offsets of the segments and the offsets of the producer snapshots, ascending.
    Temporary files and indexes without a segment are removed."""
    bases: list[int] = []
    snapshots: list[int] = []
    others: list[tuple[int, str]] = []
    for name in names:
        parsed = log_files.parse_offset_name(name)
        if parsed is None:
            if log_files.is_leftover(name):
                owner.disk.remove(f"{directory}/{name}")
        elif parsed[1] == log_files.LOG:
            bases.append(parsed[0])
        elif parsed[1] == log_files.SNAPSHOT:
            snapshots.append(parsed[0])
        elif parsed[1] in log_files.SEGMENT_SUFFIXES:
            others.append(parsed)
    known = set(bases)
    for offset, suffix in others:
        if offset not in known:
            owner.disk.remove(f"{directory}/{log_files.offset_name(offset, suffix)}")
    return sorted(bases), snapshots


def _read_topic_id(owner: LogOwner[Log], directory: str, names: list[str]) -> TopicId:
    """The topic id in partition.metadata; NO_TOPIC_ID if the file is missing or corrupt."""
    if log_files.PARTITION_METADATA in names:
        path = f"{directory}/{log_files.PARTITION_METADATA}"
        try:
            return log_files.decode_partition_metadata(owner.disk.read_file(path))
        except log_files.CorruptFile as error:
            logger.warning("partition.metadata not used", path=path, reason=str(error))
    return NO_TOPIC_ID
