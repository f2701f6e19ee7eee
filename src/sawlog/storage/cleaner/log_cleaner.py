"""Compacts the logs of a data directory: chooses the dirtiest, cleans it, and remembers how far.

Kafka's LogCleaner and LogCleanerManager. Up to `threads` cleanings run at a time, each with a
worker of its own; a worker lives as long as there are logs to clean. The offset up to which a log
is clean is in `cleaner-offset-checkpoint`. A damaged log is not cleaned again before a restart, and
nothing of it is removed.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicPartition
from sawlog.core.ports import Clock, Disk, DiskError, Timer, TimerHandle
from sawlog.storage import log_files
from sawlog.storage.cleaner.cleanable_log import CleanableLog, cleanable_log
from sawlog.storage.cleaner.cleaner_worker import CleanerWorker, StartWorker
from sawlog.storage.cleaner.cleaning import Cleaning, CleaningOutcome
from sawlog.storage.log import Log

logger = EventLogger(__name__)

MIN_BACKOFF_MS = 50
"""The shortest time between two looks, whatever log.cleaner.backoff.ms says."""

EXAMINED_AT_ONCE = 200
"""How many logs a look examines before other events are handled: about 2 ms."""

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """The settings log.cleaner.*; memory and buffers are shared by all threads."""

    enable: bool = True
    threads: int = 1
    dedupe_buffer_size: int = 128 * _MIB
    io_buffer_load_factor: float = 0.9
    io_buffer_size: int = 512 * 1024
    io_max_bytes_per_second: float = float("inf")
    backoff_ms: int = 15_000

    @property
    def map_bytes(self) -> int:
        """The memory of one worker's offset map."""
        return int(self.dedupe_buffer_size / max(1, self.threads) * self.io_buffer_load_factor)

    @property
    def chunk_bytes(self) -> int:
        """How much one worker reads at a time: half of its buffer, the rest is for writing."""
        return max(1024, self.io_buffer_size // max(1, self.threads) // 2)


@dataclass(slots=True)
class CleanerTotals:
    """What the cleaner has done since the start, for metrics."""

    cleanings: int = 0
    failures: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_removed: int = 0
    keyless_records: int = 0
    busy_ms: int = 0  # of all cleanings together


class CleanedDirectory(Protocol):
    """The data directory, as its cleaner sees it."""

    @property
    def disk(self) -> Disk: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def timer(self) -> Timer: ...
    @property
    def logs(self) -> Mapping[TopicPartition, Log]: ...
    @property
    def offline(self) -> DiskError | None: ...

    def fail(self, error: DiskError) -> None: ...

    def recovery_point(self, log: Log) -> int:
        """The recovery point of a log that is on disk."""
        ...


class LogCleaner:
    """The cleanings of one data directory.

    Every `backoff_ms` a look examines all logs, and those that are due are cleaned, each once, or
    more often if its keys do not fit into the offset map.

    Invariants: a log has at most one cleaning; `_cleaned_up_to` is what the checkpoint file has, or
    will have when the write in flight is done, and no entry is beyond the log's end.
    """

    def __init__(
        self, directory: CleanedDirectory, config: CleanerConfig, start_worker: StartWorker | None
    ) -> None:
        """Without `start_worker` nothing is cleaned."""
        self._directory = directory
        self.config = config
        self._start_worker = start_worker
        self._cleaned_up_to: dict[TopicPartition, int] = {}
        self._removed: set[TopicPartition] = set()  # logs that the checkpoint may still have
        self._cleanings: dict[Log, tuple[Cleaning, CleanerWorker]] = {}
        self._idle: list[CleanerWorker] = []
        self._unseen: deque[Log] = deque()  # logs that the look under way has not examined yet
        self._found: list[CleanableLog] = []  # by the look under way
        self._queue: deque[Log] = deque()  # logs that the last look found due, dirtiest first
        self._uncleanable: dict[Log, str] = {}  # with the reason
        self._damaged_from: dict[Log, int] = {}  # the base offset of the damaged segment
        self._next_look: TimerHandle | None = None  # or the next part of the look under way
        self._is_stopped = False
        self.totals = CleanerTotals()
        self.max_dirty_ratio = 0.0  # at the last look
        self.max_delay_ms = 0  # over max.compaction.lag.ms, at the last look

    def start(self, cleaned_up_to: Mapping[TopicPartition, int]) -> None:
        """Begin to look for dirty logs, with the contents of the checkpoint file."""
        logs = self._directory.logs
        # Beyond the end of a log that was cut since, appends would be taken for cleaned.
        self._cleaned_up_to = {
            tp: offset
            for tp, offset in cleaned_up_to.items()
            if tp in logs and offset <= logs[tp].end_offset
        }
        self._removed = set(cleaned_up_to) - set(logs)
        if any(tp in logs and tp not in self._cleaned_up_to for tp in cleaned_up_to):
            self._write_checkpoint()
        if self._start_worker is not None and self.config.enable:
            self._look_later()

    def stop(self) -> None:
        """Abort all cleanings; once the directory is offline, without touching a file."""
        self._is_stopped = True
        self._abort_all()

    def reconfigure(self, config: CleanerConfig) -> None:
        """Use these settings at once: cleanings with the old ones are aborted, as in Kafka, and
        begin again with the next look."""
        self.config = config
        self._abort_all()
        if self._start_worker is not None and config.enable:
            self._look_later()

    # Called by the directory for its logs

    def is_cleaning(self, log: Log) -> bool:
        return log in self._cleanings

    def abort(self, log: Log) -> None:
        """The closed segments of the log are about to change, or its policy has changed."""
        running = self._cleanings.get(log)
        if running is not None:
            logger.info("cleaning aborted", log=str(log.tp))
            self._abort(running[0])

    def lower(self, log: Log, offset: int) -> None:
        """When this returns, the checkpoint has at most `offset` for this log; DiskError where that
        fails. A log that is truncated before its damage can be cleaned again."""
        if offset <= self._damaged_from.get(log, -1):
            self._repaired(log)
        if self._cleaned_up_to.get(log.tp, 0) > offset:
            self._cleaned_up_to[log.tp] = offset
            self._write_checkpoint_now()

    def forget(self, log: Log) -> None:
        """The log was deleted or set aside."""
        self._repaired(log)
        if self._cleaned_up_to.pop(log.tp, None) is not None:
            self._removed.add(log.tp)
            self._write_checkpoint()

    def remove_stale_entry(self, tp: TopicPartition) -> None:
        """When this returns, the checkpoint has no entry of an earlier log of this name; DiskError
        where that fails. A log that counts as clean and is not would lose the tombstones of keys
        whose values are still there."""
        if tp in self._removed:
            self._write_checkpoint_now()

    @property
    def uncleanable(self) -> Mapping[Log, str]:
        """The logs that are not cleaned because they are damaged, with the reason."""
        return self._uncleanable

    @property
    def damaged_from(self) -> Mapping[Log, int]:
        """The logs in which cleaning has met damage, with the base offset of that segment."""
        return self._damaged_from

    def _repaired(self, log: Log) -> None:
        self._uncleanable.pop(log, None)
        self._damaged_from.pop(log, None)

    @property
    def uncleanable_bytes(self) -> int:
        return sum(log.size_bytes for log in self._uncleanable)

    # Looking for dirty logs

    def _look_later(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
        delay_ms = max(self.config.backoff_ms, MIN_BACKOFF_MS)
        self._next_look = self._directory.timer.after(delay_ms, self._look)

    def _look(self) -> None:
        """Examine all logs, clean those that are dirty enough, and look again after the backoff."""
        self._unseen = deque(self._directory.logs.values())
        self._found = []
        self._examine_some()

    def _examine_some(self) -> None:
        """Examine a few logs, and the others after the events that wait."""
        if self._is_stopped or self._directory.offline is not None or not self.config.enable:
            return
        for _ in range(min(len(self._unseen), EXAMINED_AT_ONCE)):
            cleanable = self._examine(self._unseen.popleft())
            if cleanable is not None:
                self._found.append(cleanable)
        if self._unseen:
            self._next_look = self._directory.timer.after(0, self._examine_some)
            return
        found, self._found = self._found, []
        self.max_dirty_ratio = max((each.dirty_ratio for each in found), default=0.0)
        self.max_delay_ms = max((each.delay_ms for each in found), default=0)
        due = [each for each in found if each.is_due]
        due.sort(key=lambda each: (-each.dirty_ratio, str(each.log.tp)))
        self._queue = deque(each.log for each in due)
        self._clean_next()
        self._look_later()

    def _examine(self, log: Log) -> CleanableLog | None:
        """The cleanable part of a log; None if it is not to be cleaned now."""
        if "compact" not in log.config.cleanup_policy or log.is_closed or len(log.segments) == 1:
            return None
        if log in self._cleanings or log in self._uncleanable:
            return None
        cleaned_up_to = self._cleaned_up_to.get(log.tp, 0)
        now_ms = self._directory.clock.now_ms()
        try:
            return cleanable_log(log, cleaned_up_to, self._limit_offset(log), now_ms)
        except DiskError as error:
            logger.warning("log not cleaned", log=str(log.tp), reason=str(error))
        except Exception as error:  # of one log: the others are cleaned
            self._set_uncleanable(log, str(error))
        return None

    def _limit_offset(self, log: Log) -> int:
        """Below the last stable offset, so that every transaction is decided, and below the
        recovery point: what replaces a record must be durable first, and recovery finds the gaps of
        a cleaning only where it does not look for torn batches."""
        point = self._directory.recovery_point(log)
        stable = log.last_stable_offset
        wanted = min(stable, log.segments.active.base_offset)
        if point < wanted:
            log.flush.request(wanted)  # with flush.policy=os nothing else flushes
        return min(stable, point)

    # One cleaning

    def _clean_next(self) -> None:
        """Clean the logs of the queue, as many at a time as there are threads."""
        while self._queue and self.config.enable and len(self._cleanings) < self.config.threads:
            cleanable = self._examine(self._queue.popleft())
            if cleanable is not None and cleanable.is_due:
                self._clean(cleanable)
        if not self._cleanings:
            self._release_workers()

    def _clean(self, cleanable: CleanableLog) -> None:
        assert self._start_worker is not None
        config, directory = self.config, self._directory
        try:
            worker = (
                self._idle.pop()
                if self._idle
                else self._start_worker(config.io_max_bytes_per_second / config.threads)
            )
        except DiskError as error:
            logger.error("log cleaner cannot start its worker", reason=str(error))
            return
        cleaning = Cleaning(
            cleanable,
            worker,
            disk=directory.disk,
            clock=directory.clock,
            timer=directory.timer,
            map_bytes=config.map_bytes,
            chunk_bytes=config.chunk_bytes,
            on_done=self._done,
            on_disk_error=directory.fail,
        )
        self._cleanings[cleanable.log] = cleaning, worker
        cleaning.begin()

    def _abort_all(self) -> None:
        for cleaning, _ in list(self._cleanings.values()):
            if self._directory.offline is None:
                self._abort(cleaning)
            else:
                self._cleanings.pop(cleaning.log)
                cleaning.abandon()
        self._release_workers()

    def _abort(self, cleaning: Cleaning) -> None:
        self._cleanings.pop(cleaning.log, None)
        try:
            cleaning.abort()
        except DiskError as error:
            self._directory.fail(error)

    def _done(self, cleaning: Cleaning, outcome: CleaningOutcome) -> None:
        log = cleaning.log
        _, worker = self._cleanings.pop(log)
        elapsed_ms = self._directory.clock.monotonic_ms() - cleaning.began_ms
        self._count(outcome, elapsed_ms)
        failure = outcome.failure
        if failure is None:
            self._idle.append(worker)
        else:
            worker.stop()
        if failure is None:
            self._log_outcome(log, outcome, elapsed_ms)
            self._cleaned_up_to[log.tp] = outcome.cleaned_up_to
            self._write_checkpoint()
            if outcome.is_map_full:
                self._queue.append(log)  # another pass
        elif failure.is_damage:
            self._set_uncleanable(log, failure.reason)
            base_offset = log_files.parse_segment_name(failure.path)
            if base_offset is not None:
                self._damaged_from[log] = base_offset
        else:
            logger.warning("log not cleaned", log=str(log.tp), reason=failure.reason)
        self._clean_next()

    def _count(self, outcome: CleaningOutcome, elapsed_ms: int) -> None:
        totals, stats = self.totals, outcome.stats
        totals.cleanings += outcome.failure is None
        totals.failures += outcome.failure is not None
        totals.bytes_read += stats.bytes_read + outcome.map_bytes
        totals.bytes_written += stats.bytes_written
        totals.records_removed += stats.records_read - stats.records_written
        totals.keyless_records += stats.keyless_records
        totals.busy_ms += elapsed_ms

    def _log_outcome(self, log: Log, outcome: CleaningOutcome, elapsed_ms: int) -> None:
        stats = outcome.stats
        logger.info(
            "log cleaned",
            log=str(log.tp),
            cleaned_up_to=outcome.cleaned_up_to,
            keys=outcome.keys,
            is_map_full=outcome.is_map_full,
            records_read=stats.records_read,
            records_written=stats.records_written,
            bytes_read=stats.bytes_read,
            bytes_written=stats.bytes_written,
            milliseconds=elapsed_ms,
        )
        if stats.keyless_records:
            logger.warning(
                "records without a key removed: they were written before the topic was compacted",
                log=str(log.tp),
                records=stats.keyless_records,
            )

    def _set_uncleanable(self, log: Log, reason: str) -> None:
        self._uncleanable[log] = reason
        logger.error(
            "log is damaged and not cleaned; check it with `sawlog log verify`",
            log=str(log.tp),
            reason=reason,
        )

    def _release_workers(self) -> None:
        while self._idle:
            self._idle.pop().stop()

    # The checkpoint file

    def _encode(self) -> bytes:
        return log_files.encode_offsets(self._cleaned_up_to)

    def _write_checkpoint_now(self) -> None:
        self._directory.disk.replace(log_files.CLEANER_OFFSETS, self._encode())
        self._removed.clear()

    def _write_checkpoint(self) -> None:
        removed = set(self._removed)

        def written(error: DiskError | None) -> None:
            if error is not None:  # the next cleaning only starts earlier than needed
                logger.warning("cleaner checkpoint not written", reason=str(error))
            else:
                self._removed -= removed

        files = [(log_files.CLEANER_OFFSETS, self._encode())]
        self._directory.disk.replace_later(files, written)
