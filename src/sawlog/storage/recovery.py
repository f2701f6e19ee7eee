"""Opening a log as a stop or a crash left it.

Everything below the recovery point is taken as it is, unread but for the way from the last index
entry; every batch at or after it is checked against its CRC, and the first bad one ends the log: it
and all behind it never was on disk for sure. Indexes, epochs and producer state are brought up to
date from the batches on the same way. The recovery point does not move here (KAFKA-10101).
"""

from dataclasses import dataclass

from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NO_TOPIC_ID, TopicId, TopicPartition
from sawlog.protocol.record_batch import BatchHeader
from sawlog.storage import epoch_repair, log_files, rolling, snapshots, trimming
from sawlog.storage.epochs import LeaderEpochs
from sawlog.storage.log import Log
from sawlog.storage.log_config import FOREVER, LogConfig
from sawlog.storage.log_owner import LogOwner
from sawlog.storage.scan import Damage, check, true_batch, walk_past_damage
from sawlog.storage.segment import LOOK_UP_BYTES, MAX_RELATIVE_OFFSET, Segment
from sawlog.storage.snapshots import Snapshots

events = EventLogger(__name__)


@dataclass(slots=True)
class RecoveryReport:
    """What opening the logs of a data directory had to do; all zero after a clean stop."""

    recovered_logs: int = 0
    checked_bytes: int = 0  # of record batches whose CRC was checked
    cut_bytes: int = 0  # torn tails, and segments behind one
    damaged_logs: int = 0  # with a bad batch, or a gap, below the recovery point


def open_log(
    home: LogOwner,
    tp: TopicPartition,
    config: LogConfig,
    *,
    recovery_point: int | None,
    start_offset: int | None,
    watermark: int = 0,
    is_clean: bool = False,
    report: RecoveryReport,
) -> Log:
    """The log in directory `tp`; the offsets are what checkpoints say.

    After a clean stop a look at the end is enough, if it is where the recovery point says.
    Without a recovery point the whole log is checked. Afterwards `flushed_offset` is the recovery
    point or, where the log turned out shorter, its end: the caller must then lower the checkpoint.
    `report` adds up what was done.
    """
    log = Log(home, tp, NO_TOPIC_ID, config)
    names = home.disk.list(log.directory)
    log.topic_id = _read_topic_id(log, names)
    bases = _sort_out(log, names)
    if not bases:
        _begin_anew(log, start_offset or 0, recovery_point or 0)
        return log
    now_ms = home.clock.now_ms()
    log.adopt([_found_segment(log, base, now_ms) for base in bases])
    _read_epochs(log, names)
    point = max(recovery_point or 0, bases[0])
    witness = point if point in log.snapshots.offsets else watermark
    if is_clean and _ends_at(log, point):
        log.end_offset = point
        log.snapshots.remove_above(point)
        log.leave_producers_unread(point)
    else:
        trimming.reload_producers(log, point)
        recovery = _Recovery(log, point, report, is_point_known=recovery_point is not None)
        recovery.run()
        report.recovered_logs += 1
        report.damaged_logs += recovery.is_damaged or log.end_offset < point
        if log.end_offset < point:
            _skip_missing(log, point, point if recovery.is_blocked else witness)
        log.producers.expire(now_ms, config.producer_id_expiration_ms)
    _settle(log, point, start_offset, watermark)
    # A crash may have come before the first flush: nobody knows whether its entries are durable.
    log.commit.directory_is_dirty = log.commit.directory_is_dirty or not is_clean
    epoch_repair.complete(log)
    return log


def _found_segment(log: Log, base: int, now_ms: int) -> Segment:
    return Segment(
        log.home.disk,
        log.directory,
        base,
        created_ms=now_ms,
        index_interval_bytes=log.config.index_interval_bytes,
        is_new=False,
    )


def _ends_at(log: Log, point: int) -> bool:
    """Whether the log ends where the recovery point says, with the epoch that is known as its
    last: a look at the last index entry and the batches behind it."""
    end = log.active.end_by_index()
    if end is None or end.next_offset != point:
        return False
    if end.leader_epoch >= 0 and end.leader_epoch != log.epochs.epoch_at(point - 1):
        log.epochs = LeaderEpochs()
    return True


def _begin_anew(log: Log, start_offset: int, point: int) -> None:
    """A directory without segments; offsets that were handed out are not used again."""
    if point > start_offset:
        events.error(
            "all segments of a log are missing",
            log=str(log.tp),
            lost_from=start_offset,
            lost_up_to=point,
        )
    base = max(start_offset, point)
    log.adopt([rolling.new_segment(log, base)])
    log.start_offset = log.end_offset = log.flushed_offset = base
    log.commit.home_is_dirty = True


def _skip_missing(log: Log, point: int, witness: int) -> None:
    """The log ends before its recovery point: either synced records are gone, or the checkpoint is
    wrong. Where a second witness (the watermark, or a producer snapshot) has seen higher offsets
    too, they were handed out, and none is ever used again: the log goes on behind them."""
    witnessed = min(point, witness)
    events.error(
        "log ends before its recovery point",
        log=str(log.tp),
        end_offset=log.end_offset,
        recovery_point=point,
        lost_up_to=max(witnessed, log.end_offset),
    )
    if witnessed > log.end_offset:
        log.active.finish()
        log.commit.unsynced += log.active.files()
        log.adopt([*log.segments, rolling.new_segment(log, witnessed)])
        log.end_offset = witnessed


def _settle(log: Log, point: int, start_offset: int | None, watermark: int) -> None:
    """Offsets, epochs and snapshots, once the segments and the end are known."""
    log.flushed_offset = min(point, log.end_offset)
    log.high_watermark = min(max(watermark, log.bases[0]), log.end_offset)
    log.start_offset = log.bases[0]
    if start_offset is not None and log.bases[0] <= start_offset <= log.end_offset:
        log.start_offset = start_offset
    log.epochs.truncate_end(log.end_offset)
    log.epochs.truncate_start(log.start_offset)


class _Recovery:
    """One pass over the segments that reach beyond the recovery point."""

    def __init__(
        self, log: Log, point: int, report: RecoveryReport, *, is_point_known: bool
    ) -> None:
        self.log = log
        self.point = point
        self.report = report
        self.now_ms = log.home.clock.now_ms()
        # Gaps between segments are compaction's where it is on; elsewhere a file is missing.
        self.takes_gaps = not is_point_known or "compact" in log.config.cleanup_policy
        self.next_offset = point
        self.confirmed: list[int] = []  # snapshots beyond the point that turned out true
        self.is_damaged = False  # below the recovery point
        self.is_blocked = False  # damage before the recovery point, and nothing found behind it

    def run(self) -> None:
        log = self.log
        # A segment that ends right at the point counts too: its indexes may not be on disk yet.
        first = log.segment_index_for(self.point - 1)
        for number in range(first, len(log.segments)):
            segment = log.segments[number]
            if number > first and not self._continues(segment):
                self._drop_segments(number, "a segment before it is missing or cut")
                break
            self.next_offset = segment.base_offset
            if segment.base_offset > self.point and snapshots.confirm(log, segment.base_offset):
                self.confirmed.append(segment.base_offset)
            try:
                position = self._walk_to_point(segment)
                self._check_from(segment, position)
            except Damage as damage:
                self._cut(segment, damage)
                self._drop_segments(number + 1, "what lies before it was cut")
                break
        log.end_offset = max(self.next_offset, log.active.base_offset)
        log.snapshots.remove_above(min(self.point, log.end_offset), kept=self.confirmed)
        # After kill -9 these bytes are in the page cache, perhaps: only a sync makes them ours. The
        # indexes too: once the recovery point is beyond a segment nobody checks them again.
        for segment in log.segments[first:-1]:
            segment.finish()
            log.commit.unsynced += segment.files()
        # Later segments may have been dropped, or have come after the damage.
        self.is_blocked = self.is_blocked and log.end_offset < self.point

    def _continues(self, segment: Segment) -> bool:
        """Whether a segment may follow; one that the recovery point vouches for always may."""
        base = segment.base_offset
        return base == self.next_offset or (
            base > self.next_offset and (self.takes_gaps or base <= self.point)
        )

    def _walk_to_point(self, segment: Segment) -> int:
        """Brings the indexes up to the recovery point, by headers alone; returns its position.

        Damage on the way is reported and nothing is dropped: what follows it is looked for.
        """
        start, end = segment.resume(self.point), segment.file.size
        if segment.base_offset >= self.point:
            return start
        if start:  # the index vouches for the batch there
            self.next_offset = segment.batch_at(start).base_offset
        damages: list[Damage] = []

        def note(damage: Damage, behind: BatchHeader | None) -> None:
            damages.append(damage)
            if self.next_offset < self.point:
                self.takes_gaps = True
                self._report_damage(damage, behind)

        for position, header in walk_past_damage(
            segment.file, start, end, note, chunk_bytes=LOOK_UP_BYTES
        ):
            if self.next_offset >= self.point:
                # Damage that begins at the point itself is a torn tail.
                return damages[-1].position if damages else position
            if not self._fits(segment, position, header):
                reason = f"offsets {header.base_offset} to {header.last_offset} out of line"
                behind = true_batch(segment.file, position + header.size, end)
                note(Damage(segment.file, position, reason), behind)
                continue
            if header.base_offset >= self.point:
                return position
            if damages:
                segment.bytes_since_index = FOREVER  # so that an entry leads behind the damage
                damages.clear()
            self._take(segment, position, header)
        if damages and self.next_offset >= self.point:
            return damages[-1].position
        self.is_blocked = bool(damages) and self.point - segment.base_offset <= MAX_RELATIVE_OFFSET
        return end

    def _fits(self, segment: Segment, position: int, header: BatchHeader) -> bool:
        """Whether a batch below the recovery point has the offsets that it says. No CRC covers the
        first of them: where it leaves a gap, the batch behind tells whether there is one."""
        if header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            return False
        is_next = header.base_offset == self.next_offset
        if is_next and header.last_offset_delta == header.count - 1:
            return True
        file = segment.file
        if header.base_offset < self.next_offset or not true_batch(file, position, file.size):
            return False
        if is_next:
            return True
        behind = true_batch(file, position + header.size, file.size)
        if behind is None or behind.base_offset < self.next_offset:
            return self.takes_gaps or header.base_offset < self.point
        return behind.base_offset >= header.next_offset

    def _check_from(self, segment: Segment, start: int) -> None:
        """Checks and takes every batch; Damage at the first that must be cut."""
        log = self.log
        for position, header in check(segment.file, start, segment.file.size):
            self._take(segment, position, header)
            self.report.checked_bytes += header.size
            if header.leader_epoch > log.epochs.latest:
                log.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0 and not header.is_control:
                log.producers.update(header, header.base_offset, header.max_timestamp, self.now_ms)

    def _take(self, segment: Segment, position: int, header: BatchHeader) -> None:
        if header.base_offset < self.next_offset:
            raise Damage(segment.file, position, f"offset {header.base_offset} once more")
        if header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            raise Damage(segment.file, position, f"offset {header.base_offset} far off")
        segment.replay(position, header)
        self.next_offset = header.next_offset

    def _report_damage(self, damage: Damage, behind: BatchHeader | None) -> None:
        self.is_damaged = True
        events.error(
            "damage below the recovery point",
            log=str(self.log.tp),
            path=damage.file.path,
            from_offset=self.next_offset,
            next_good_offset=behind.base_offset if behind else None,
            recovery_point=self.point,
            position=damage.position,
            reason=damage.reason,
        )

    def _cut(self, segment: Segment, damage: Damage) -> None:
        """Ends the segment before the bad batch, on disk too: what is appended there next must
        not be followed by old bytes after another crash."""
        events.warning(
            "torn tail cut",
            log=str(self.log.tp),
            path=segment.file.path,
            from_offset=self.next_offset,
            recovery_point=self.point,
            position=damage.position,
            bytes=segment.file.size - damage.position,
            reason=damage.reason,
        )
        self.report.cut_bytes += segment.file.size - damage.position
        segment.file.truncate(damage.position)
        segment.file.sync()

    def _drop_segments(self, number: int, reason: str) -> None:
        log = self.log
        dropped = log.segments[number:]
        for segment in reversed(dropped):
            events.warning(
                "segment dropped",
                log=str(log.tp),
                path=segment.file.path,
                from_offset=segment.base_offset,
                bytes=segment.file.size,
                reason=reason,
            )
            self.report.cut_bytes += segment.file.size
            segment.remove(log.home.disk, log.directory)
        if dropped:
            log.home.disk.sync_directory(log.directory)
            log.adopt(log.segments[:number])


def _sort_out(log: Log, names: list[str]) -> list[int]:
    """The segments' base offsets, in order. Leftovers and indexes without a log are removed."""
    disk = log.home.disk
    bases: list[int] = []
    snapshots: list[int] = []
    others: list[tuple[int, str]] = []
    for name in names:
        parsed = log_files.parse_offset_name(name)
        if parsed is None:
            if log_files.is_leftover(name):
                disk.remove(f"{log.directory}/{name}")
        elif parsed[1] == log_files.LOG:
            bases.append(parsed[0])
        elif parsed[1] == log_files.SNAPSHOT:
            snapshots.append(parsed[0])
        elif parsed[1] in log_files.SEGMENT_SUFFIXES:
            others.append(parsed)
    known = set(bases)
    for offset, suffix in others:
        if offset not in known:
            disk.remove(f"{log.directory}/{log_files.offset_name(offset, suffix)}")
    log.snapshots = Snapshots(disk, log.directory, snapshots)
    return bases


def _read_topic_id(log: Log, names: list[str]) -> TopicId:
    """As partition.metadata has it; without a believable one whoever knows better must say."""
    if log_files.PARTITION_METADATA in names:
        try:
            return log_files.decode_partition_metadata(
                log.home.disk.read_file(f"{log.directory}/{log_files.PARTITION_METADATA}")
            )
        except log_files.CorruptFile as error:
            events.warning("partition.metadata not used", log=str(log.tp), reason=str(error))
    return NO_TOPIC_ID


def _read_epochs(log: Log, names: list[str]) -> None:
    """As the checkpoint has them; none where it cannot be believed (Kafka creates it empty)."""
    if log_files.EPOCH_CHECKPOINT not in names:
        return
    data = log.home.disk.read_file(f"{log.directory}/{log_files.EPOCH_CHECKPOINT}")
    try:
        log.epochs = LeaderEpochs(log_files.decode_epochs(data))
    except log_files.CorruptFile as error:
        if data:
            events.warning("leader epochs rebuilt", log=str(log.tp), reason=str(error))
