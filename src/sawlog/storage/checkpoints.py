"""The checkpoints of a data directory, written off the loop while it works.

A round takes some logs that have changed: it notes their end and their producers' state, flushes
them, writes the snapshots, and then the recovery points that rely on both. So a recovery point
is never beyond what is synced, and the producer state at it is found without reading far back.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicPartition
from sawlog.core.ports import DiskError, DiskFull, TooManyOpenFiles
from sawlog.storage import log_files, snapshots, trimming
from sawlog.storage.log import Log

if TYPE_CHECKING:
    from sawlog.storage.log_directory import LogDirectory

INTERVAL_MS = 5_000
LOGS_A_ROUND = 256

events = EventLogger(__name__)


class Checkpointer:
    """Invariants: one round at a time; `_points` and `_starts` are what the files say, or will say
    when the write under way is done; no point is beyond what was flushed; what the files say of a
    log that is gone is never taken for one of the same name that came after it."""

    def __init__(self, directory: "LogDirectory", *, flushes: bool) -> None:
        self.directory = directory
        self.flushes = flushes
        self._points: dict[TopicPartition, int] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._changed: dict[Log, None] = {}
        self._gone: set[TopicPartition] = set()  # the files may still name them
        self._leaving: set[TopicPartition] = set()  # those that the write under way takes out
        self._round: _Round | None = None
        self._is_wanted = False  # another round, as soon as this one ends
        self._is_timed = False

    def start(
        self,
        points: dict[TopicPartition, int],
        starts: dict[TopicPartition, int],
        watermarks: dict[TopicPartition, int],
    ) -> None:
        """After all logs are open, with what the files say; where that is more than the logs
        turned out to hold, they are corrected before the first append. Where it is less, the next
        checkpoint will do: a start does not need room on the disk for it."""
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
        """A snapshot at the new segment's base, so that a truncation finds one near; a round."""
        snapshots.write_later(log, log.active.base_offset, log.producers.encode(), _nothing)
        self.changed(log)
        self.checkpoint_later()

    def forget(self, log: Log) -> None:
        self._changed.pop(log, None)
        self._points.pop(log.tp, None)
        self._gone.add(log.tp)
        self._leaving.discard(log.tp)

    def make_way(self, tp: TopicPartition) -> None:
        """For a new log: no file tells of an earlier one of its name when this returns; DiskError
        where one may."""
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
        """The files claim at most `offset` when this returns; DiskError where they cannot."""
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
        """The next round follows at once if one is wanted; after what could not be done it waits,
        since a full disk is not less so at the next moment."""
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
        """Everything flushed, snapshots and checkpoints on disk, before it returns."""
        if self._round is not None:
            self._round.is_cancelled = True
        logs = self.directory.logs
        for log in logs.values():
            log.flush_now()
            if log.needs_snapshot or log.end_offset != self._points.get(log.tp, 0):
                if log.needs_snapshot or log.snapshots.latest() != log.end_offset:
                    snapshots.write_now(log)
                # The next segment may begin right at this point: then nobody checks these again.
                log.active.finish()
                for file in log.active.files():
                    file.sync()
                self._points[log.tp] = log.end_offset
            trimming.remove_doomed_now(log)
        self._write_now()

    # Contents

    def _write_now(self) -> None:
        for path, data in self._files():
            self._replace(path, data)
        self._gone.clear()

    def _replace(self, path: str, data: bytes) -> None:
        """A round's write that is under way is overtaken, even where this one fails: the later
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
        self.is_cancelled = False
        self._checkpointer = checkpointer
        self._points: dict[Log, int] = {}
        self._generations: dict[Log, int] = {}
        self._states: dict[Log, bytes] = {}
        self._unfinished: list[Log] = []
        self._outstanding = 1
        self._logs = logs

    def begin(self) -> None:
        for log in self._logs:
            log.active.write_tails()
            point = log.end_offset if self._checkpointer.flushes else log.flushed_offset
            self._points[log] = point
            self._generations[log] = log.generation
            if point == log.end_offset and snapshots.is_due(log):
                self._states[log] = log.producers.encode()
                log.producers.changed = False
            if point > log.flushed_offset:
                self._outstanding += 1
                log.flush_later(self._flushed)
        self._flushed(None)

    def _flushed(self, _: DiskError | None) -> None:
        """An error shows in what is flushed, and in the directory being offline."""
        self._outstanding -= 1
        if self._outstanding or not self._goes_on():
            return
        self._outstanding = 1
        for log, point in list(self._points.items()):
            if self._is_stale(log) or log.flushed_offset < point:
                self._give_up(log)
            elif log in self._states:
                self._outstanding += 1
                snapshots.write_later(log, point, self._states[log], self._snapshot_done(log))
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
                    snapshots.tidy(log, point)
        self._checkpointer.ended(self._unfinished)

    def _goes_on(self) -> bool:
        return not self.is_cancelled and self._checkpointer.directory.offline is None

    def _is_stale(self, log: Log) -> bool:
        return log.is_closed or log.generation != self._generations[log]

    def _give_up(self, log: Log) -> None:
        if self._points.pop(log, None) is not None:
            self._unfinished.append(log)
            log.producers.changed = log.producers.changed or log in self._states


def _report(directory: "LogDirectory", error: DiskError) -> None:
    """Lack of room or descriptors passes, and the next round tries again; all else does not."""
    if isinstance(error, DiskFull | TooManyOpenFiles):
        events.warning("checkpoint not written", path=error.path, reason=error.reason)
    else:
        directory.fail(error)


def _nothing(_: bool) -> None:
    pass
