"""Writes the checkpoints of a data directory, off the loop.

A round takes some logs that have changed: it notes their end offset and their producers' state,
flushes them, writes the snapshots, and then the recovery points that rely on both. So a recovery
point is never beyond what is synced, and the producer state at it needs little replay.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicPartition
from sawlog.core.ports import Disk, DiskError, DiskFull, Timer, TooManyOpenFiles
from sawlog.storage import log_files
from sawlog.storage.log import Log

INTERVAL_MS = 5_000
LOGS_PER_ROUND = 256

logger = EventLogger(__name__)


class CheckpointedDirectory(Protocol):
    """The data directory, as its checkpointer sees it."""

    @property
    def disk(self) -> Disk: ...
    @property
    def timer(self) -> Timer: ...
    @property
    def logs(self) -> Mapping[TopicPartition, Log]: ...
    @property
    def offline(self) -> DiskError | None: ...

    def fail(self, error: DiskError) -> None: ...


class Checkpointer:
    """The recovery points, start offsets and high watermarks of all logs, and their files.

    Invariants: at most one round is in flight; `_points` and `_starts` are the contents of the
    files, or will be when the write in flight is done; no recovery point is beyond the flushed
    offset; an entry of a removed log is never used for a later log of the same name.
    """

    def __init__(
        self, directory: CheckpointedDirectory, *, flushes: bool, watermark_interval_ms: int
    ) -> None:
        self.directory = directory
        self.flushes = flushes
        self._watermark_interval_ms = watermark_interval_ms
        self._points: dict[TopicPartition, int] = {}
        self._points_on_disk: dict[TopicPartition, int] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._changed: dict[Log, None] = {}
        self._removed: set[TopicPartition] = set()  # logs that the files may still have
        self._removed_by_write: set[TopicPartition] = set()  # that the write in flight omits
        self._round: _Round | None = None
        self._is_requested = False  # another round, as soon as this one ends
        self._has_timer = False
        self._has_new_watermarks = False

    def start(
        self,
        points: dict[TopicPartition, int],
        starts: dict[TopicPartition, int],
        watermarks: dict[TopicPartition, int],
    ) -> None:
        """Start with the contents of the files, after all logs are open. A file that claims more
        than a log holds is corrected now, before the first append. Other differences are left to
        the next checkpoint, so that a start needs no disk space."""
        logs = self.directory.logs
        self._removed = (points.keys() | starts.keys() | watermarks.keys()) - logs.keys()
        self._points = {
            tp: min(point, logs[tp].flushed_offset) for tp, point in points.items() if tp in logs
        }
        self._points_on_disk = dict(self._points)
        self._starts = {tp: start for tp, start in starts.items() if tp in logs}
        if any(points[tp] > point for tp, point in self._points.items()) or any(
            start > logs[tp].start_offset for tp, start in self._starts.items()
        ):
            self._write_now()

    def recovery_point(self, log: Log) -> int:
        """The recovery point that is on disk: after a crash it is there, or a higher one."""
        return min(self._points_on_disk.get(log.tp, 0), self._points.get(log.tp, 0))

    # While the broker runs

    def changed(self, log: Log) -> None:
        """Include `log` in the next checkpoint."""
        self._changed[log] = None
        self._set_timer()

    def high_watermark_moved(self) -> None:
        """Write the high watermarks with the next checkpoint."""
        if not self._has_new_watermarks:
            self._has_new_watermarks = True
            if self._watermark_interval_ms == INTERVAL_MS:
                self._set_timer()  # one timer for both, so that a flush and its commit share it
            else:
                self.directory.timer.after(self._watermark_interval_ms, self.checkpoint_later)

    def rolled(self, log: Log) -> None:
        """Write a producer snapshot at the base offset of the new segment, and a checkpoint."""
        # A later truncation finds a snapshot near.
        base_offset = log.segments.active.base_offset
        log.producers.write_later(base_offset, log.producer_states.encode())
        self.changed(log)
        self.checkpoint_later()

    def forget(self, log: Log) -> None:
        """The log was deleted or set aside: remove it from the files at the next checkpoint."""
        self._changed.pop(log, None)
        self._points.pop(log.tp, None)
        self._points_on_disk.pop(log.tp, None)
        self._removed.add(log.tp)
        self._removed_by_write.discard(log.tp)

    def remove_stale_entries(self, tp: TopicPartition) -> None:
        """When this returns, no file has an entry of an earlier log of this name; DiskError where
        that fails."""
        if tp in self._removed:
            self._write_now()

    def checkpoint_later(self) -> None:
        """Start a round for the changed logs, or let one follow the round in flight."""
        if self.directory.offline is not None:
            return
        if self._round is not None:
            self._is_requested = True
        elif self._changed or self._has_new_watermarks:
            logs = list(self._changed)[:LOGS_PER_ROUND]
            for log in logs:
                del self._changed[log]
            self._is_requested = bool(self._changed)
            self._round = _Round(self, logs)
            self._round.begin()

    def lower(self, log: Log, offset: int) -> None:
        """When this returns, the files have at most `offset` for this log; DiskError where that
        fails."""
        if self._points.get(log.tp, 0) > offset:
            self._points[log.tp] = offset
            self._replace(log_files.RECOVERY_POINTS, log_files.encode_offsets(self._points))
        if self._starts.get(log.tp, 0) > offset:
            self._starts[log.tp] = offset
            self._replace(log_files.START_OFFSETS, log_files.encode_offsets(self._starts))
        if log.high_watermark > offset:
            # After an unclean election: else a crash would call replaced records committed.
            watermarks = {tp: one.high_watermark for tp, one in self.directory.logs.items()}
            watermarks[log.tp] = offset
            self._replace(log_files.WATERMARKS, log_files.encode_offsets(watermarks))

    def _set_timer(self) -> None:
        if not self._has_timer:
            self._has_timer = True
            self.directory.timer.after(INTERVAL_MS, self._timed)

    def _timed(self) -> None:
        self._has_timer = False
        self.checkpoint_later()

    # Called by a round

    def write_later(self, points: dict[Log, int], done: Callable[[DiskError | None], None]) -> None:
        """Write all files with these recovery points."""
        for log, point in points.items():
            self._points[log.tp] = point
        self._removed_by_write = set(self._removed)
        written_points = dict(self._points)

        def written(error: DiskError | None) -> None:
            if error is None:
                self._removed -= self._removed_by_write
                self._points_on_disk = written_points
            else:
                self.high_watermark_moved()
            done(error)

        self.directory.disk.replace_later(self._files(), written)

    def ended(self, unfinished: list[Log]) -> None:
        """End the round. The next one follows at once if it was requested, but after a delay if
        some logs could not be checkpointed: a full disk seldom has space again at once."""
        self._round = None
        for log in unfinished:
            if not log.is_closed:
                self._changed[log] = None
        if self._changed and unfinished:
            self._set_timer()
        elif self._is_requested:
            self.checkpoint_later()

    # At a clean stop

    def finish(self) -> None:
        """Flush all logs and write snapshots and checkpoints, before this returns."""
        if self._round is not None:
            self._round.cancel()
        for log in self.directory.logs.values():
            point = self._points.get(log.tp, 0)
            log.prepare_clean_stop(point)
            if log.end_offset != point:
                self._points[log.tp] = log.end_offset
        self._write_now()

    # The files

    def _write_now(self) -> None:
        for path, data in self._files():
            self._replace(path, data)
        self._points_on_disk = dict(self._points)
        self._removed.clear()

    def _replace(self, path: str, data: bytes) -> None:
        """Replace a file. This overtakes the write of a round in flight even if it fails: the last
        `replace` of a path wins."""
        self._removed_by_write.clear()
        self.directory.disk.replace(path, data)

    def _files(self) -> list[tuple[str, bytes]]:
        """The files in the order in which they are written: after a crash, no start offset is
        beyond the high watermark, so recovery can rely on it."""
        logs = self.directory.logs
        watermarks = {tp: log.high_watermark for tp, log in logs.items()}
        self._has_new_watermarks = False
        self._starts = {tp: log.start_offset for tp, log in logs.items() if log.start_offset > 0}
        return [
            (log_files.RECOVERY_POINTS, log_files.encode_offsets(self._points)),
            (log_files.WATERMARKS, log_files.encode_offsets(watermarks)),
            (log_files.START_OFFSETS, log_files.encode_offsets(self._starts)),
        ]


class _Round:
    """One checkpoint of some logs: flush, snapshots, recovery points, in this order."""

    def __init__(self, checkpointer: Checkpointer, logs: list[Log]) -> None:
        self._is_cancelled = False
        self._checkpointer = checkpointer
        self._points: dict[Log, int] = {}
        self._truncations: dict[Log, int] = {}
        self._snapshots: dict[Log, bytes] = {}
        self._unfinished: list[Log] = []
        self._outstanding = 1
        self._logs = logs

    def cancel(self) -> None:
        """Stop this round: the broker stops, and `Checkpointer.finish` writes the files."""
        self._is_cancelled = True

    def begin(self) -> None:
        for log in self._logs:
            log.write_index_tails()
            point = log.end_offset if self._checkpointer.flushes else log.flushed_offset
            self._points[log] = point
            self._truncations[log] = log.truncations
            is_at_end = point == log.end_offset
            if is_at_end and log.producers.is_snapshot_due(log.segments, point):
                self._snapshots[log] = log.encode_producers()
            if point > log.flushed_offset:
                self._outstanding += 1
                log.flush.when_flushed(self._flushed)
        self._flushed(None)

    def _flushed(self, _: DiskError | None) -> None:
        """The flush of one log is over; an error shows in its `flushed_offset`."""
        self._outstanding -= 1
        if self._outstanding or not self._is_active():
            return
        self._outstanding = 1
        for log, point in list(self._points.items()):
            if self._is_stale(log) or log.flushed_offset < point:
                self._postpone(log)
            elif log in self._snapshots:
                self._outstanding += 1
                done = self._snapshot_done(log)
                log.producers.write_later(point, self._snapshots[log], done)
        self._snapshot_written()

    def _snapshot_done(self, log: Log) -> Callable[[bool], None]:
        def done(is_written: bool) -> None:
            if not is_written:
                self._postpone(log)
            self._snapshot_written()

        return done

    def _snapshot_written(self) -> None:
        self._outstanding -= 1
        if self._outstanding or not self._is_active():
            return
        for log in list(self._points):
            if self._is_stale(log):
                self._postpone(log)
        self._checkpointer.write_later(self._points, self._written)

    def _written(self, error: DiskError | None) -> None:
        if not self._is_active():
            return
        if error is not None:
            _write_failed(self._checkpointer.directory, error)
            self._unfinished += self._points
        else:
            for log, point in self._points.items():
                if not self._is_stale(log):
                    log.producers.remove_superseded(point, log.segments, log.end_offset)
        self._checkpointer.ended(self._unfinished)

    def _is_active(self) -> bool:
        return not self._is_cancelled and self._checkpointer.directory.offline is None

    def _is_stale(self, log: Log) -> bool:
        return log.is_closed or log.truncations != self._truncations[log]

    def _postpone(self, log: Log) -> None:
        if self._points.pop(log, None) is not None:
            self._unfinished.append(log)
            if log in self._snapshots:
                log.producers.discard_encoded()


def _write_failed(directory: CheckpointedDirectory, error: DiskError) -> None:
    """Lack of disk space or descriptors is temporary, and the next round tries again; any other
    error takes the directory offline."""
    if isinstance(error, DiskFull | TooManyOpenFiles):
        logger.warning("checkpoint not written", path=error.path, reason=error.reason)
    else:
        directory.fail(error)
