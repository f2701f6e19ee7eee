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
LOGS_A_ROUND = 256

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
    """Invariants: one round at a time; `_points` and `_starts` are the contents of the files, or
    will be when the write in flight is done; no recovery point is beyond what was flushed; an entry
    of a removed log is never taken for a later log of the same name."""

    def __init__(self, directory: CheckpointedDirectory, *, flushes: bool) -> None:
        self.directory = directory
        self.flushes = flushes
        self._points: dict[TopicPartition, int] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._changed: dict[Log, None] = {}
        self._gone: set[TopicPartition] = set()  # removed logs that the files may still name
        self._leaving: set[TopicPartition] = set()  # those that the write in flight takes out
        self._round: _Round | None = None
        self._is_wanted = False  # another round, as soon as this one ends
        self._is_timed = False

    def start(
        self,
        points: dict[TopicPartition, int],
        starts: dict[TopicPartition, int],
        watermarks: dict[TopicPartition, int],
    ) -> None:
        """Begin, after all logs are open, with the contents of the files. If these exceed what the
        logs turned out to hold, they are corrected before the first append; otherwise the next
        checkpoint does, so that a start needs no disk space."""
        logs = self.directory.logs
        self._gone = (points.keys() | starts.keys() | watermarks.keys()) - logs.keys()
        self._points = {
            tp: min(point, logs[tp].flushed_offset) for tp, point in points.items() if tp in logs
        }
        self._starts = {tp: start for tp, start in starts.items() if tp in logs}
        if any(points[tp] > point for tp, point in self._points.items()) or any(
            start > logs[tp].start_offset for tp, start in self._starts.items()
        ):
            self._write_now()

    # While the broker works

    def changed(self, log: Log) -> None:
        self._changed[log] = None
        self._set_timer()

    def rolled(self, log: Log) -> None:
        """Write a producer snapshot at the base offset of the new segment, and a checkpoint."""
        log.write_roll_snapshot()
        self.changed(log)
        self.checkpoint_later()

    def forget(self, log: Log) -> None:
        self._changed.pop(log, None)
        self._points.pop(log.tp, None)
        self._gone.add(log.tp)
        self._leaving.discard(log.tp)

    def make_way(self, tp: TopicPartition) -> None:
        """When this returns, no file has an entry of an earlier log of this name; DiskError where
        that fails."""
        if tp in self._gone:
            self._write_now()

    def checkpoint_later(self) -> None:
        if self.directory.offline is not None:
            return
        if self._round is not None:
            self._is_wanted = True
        elif self._changed:
            logs = list(self._changed)[:LOGS_A_ROUND]
            for log in logs:
                del self._changed[log]
            self._is_wanted = bool(self._changed)
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

    def _set_timer(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self.directory.timer.after(INTERVAL_MS, self._timed)

    def _timed(self) -> None:
        self._is_timed = False
        self.checkpoint_later()

    # For a round

    def write_later(self, points: dict[Log, int], done: Callable[[DiskError | None], None]) -> None:
        for log, point in points.items():
            self._points[log.tp] = point
        self._leaving = set(self._gone)

        def written(error: DiskError | None) -> None:
            if error is None:
                self._gone -= self._leaving
            done(error)

        self.directory.disk.replace_later(self._files(), written)

    def ended(self, unfinished: list[Log]) -> None:
        """The round is over; the next one follows at once if one is wanted. It waits if some logs
        could not be checkpointed: a full disk is unlikely to be free at once."""
        self._round = None
        for log in unfinished:
            if not log.is_closed:
                self._changed[log] = None
        if self._changed and unfinished:
            self._set_timer()
        elif self._is_wanted:
            self.checkpoint_later()

    # At the end

    def finish(self) -> None:
        """Flush all logs and write snapshots and checkpoints, before this returns."""
        if self._round is not None:
            self._round.cancel()
        for log in self.directory.logs.values():
            point = self._points.get(log.tp, 0)
            log.settle(point)
            if log.end_offset != point:
                self._points[log.tp] = log.end_offset
        self._write_now()

    # Contents

    def _write_now(self) -> None:
        for path, data in self._files():
            self._replace(path, data)
        self._gone.clear()

    def _replace(self, path: str, data: bytes) -> None:
        """Replace a file. This overtakes the write of a round in flight even if it fails: the last
        `replace` of a path wins."""
        self._leaving.clear()
        self.directory.disk.replace(path, data)

    def _files(self) -> list[tuple[str, bytes]]:
        logs = self.directory.logs
        watermarks = {tp: log.high_watermark for tp, log in logs.items()}
        self._starts = {tp: log.start_offset for tp, log in logs.items() if log.start_offset > 0}
        return [
            (log_files.RECOVERY_POINTS, log_files.encode_offsets(self._points)),
            (log_files.START_OFFSETS, log_files.encode_offsets(self._starts)),
            (log_files.WATERMARKS, log_files.encode_offsets(watermarks)),
        ]


class _Round:
    """One checkpoint of some logs: flush, snapshots, recovery points, in this order."""

    def __init__(self, checkpointer: Checkpointer, logs: list[Log]) -> None:
        self._is_cancelled = False
        self._checkpointer = checkpointer
        self._points: dict[Log, int] = {}
        self._generations: dict[Log, int] = {}
        self._snapshots: dict[Log, bytes] = {}
        self._unfinished: list[Log] = []
        self._outstanding = 1
        self._logs = logs

    def cancel(self) -> None:
        """The broker stops: the rest is written by `Checkpointer.finish`."""
        self._is_cancelled = True

    def begin(self) -> None:
        for log in self._logs:
            log.write_index_tails()
            point = log.end_offset if self._checkpointer.flushes else log.flushed_offset
            self._points[log] = point
            self._generations[log] = log.generation
            snapshot = log.encode_snapshot_if_due() if point == log.end_offset else None
            if snapshot is not None:
                self._snapshots[log] = snapshot
            if point > log.flushed_offset:
                self._outstanding += 1
                log.flush.when_flushed(self._flushed)
        self._flushed(None)

    def _flushed(self, _: DiskError | None) -> None:
        """An error shows in `flushed_offset` and in the state of the directory."""
        self._outstanding -= 1
        if self._outstanding or not self._goes_on():
            return
        self._outstanding = 1
        for log, point in list(self._points.items()):
            if self._is_stale(log) or log.flushed_offset < point:
                self._give_up(log)
            elif log in self._snapshots:
                self._outstanding += 1
                done = self._snapshot_done(log)
                log.producers.write_later(point, self._snapshots[log], done)
        self._snapshot_written()

    def _snapshot_done(self, log: Log) -> Callable[[bool], None]:
        def done(is_written: bool) -> None:
            if not is_written:
                self._give_up(log)
            self._snapshot_written()

        return done

    def _snapshot_written(self) -> None:
        self._outstanding -= 1
        if self._outstanding or not self._goes_on():
            return
        for log in list(self._points):
            if self._is_stale(log):
                self._give_up(log)
        self._checkpointer.write_later(self._points, self._written)

    def _written(self, error: DiskError | None) -> None:
        if not self._goes_on():
            return
        if error is not None:
            _report(self._checkpointer.directory, error)
            self._unfinished += self._points
        else:
            for log, point in self._points.items():
                if not self._is_stale(log):
                    log.remove_superseded_snapshots(point)
        self._checkpointer.ended(self._unfinished)

    def _goes_on(self) -> bool:
        return not self._is_cancelled and self._checkpointer.directory.offline is None

    def _is_stale(self, log: Log) -> bool:
        return log.is_closed or log.generation != self._generations[log]

    def _give_up(self, log: Log) -> None:
        if self._points.pop(log, None) is not None:
            self._unfinished.append(log)
            if log in self._snapshots:
                log.producers.discard_encoded()


def _report(directory: CheckpointedDirectory, error: DiskError) -> None:
    """Lack of disk space or descriptors is temporary, and the next round tries again; any other
    error takes the directory offline."""
    if isinstance(error, DiskFull | TooManyOpenFiles):
        logger.warning("checkpoint not written", path=error.path, reason=error.reason)
    else:
        directory.fail(error)
