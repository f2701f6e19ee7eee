"""The flusher of a broker: fsyncs the logs that have waiters, in rounds.

Syncs that run side by side share the file system's work, and one sync makes everything durable
that was written to a file before it. So a round begins as soon as one log has a waiter and no round
is in flight; every log that gets a waiter during a round belongs to the next one.

An example with numbers. A log ends at offset 10. `request(10)` starts a round, and its flush has
the target 10. Appends move the end to 30; `request(10)` has nothing to do, `request(25)` queues the
log for the next round, whose flush will have the target 30.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk, DiskError, File, Timer, TimerHandle, TooManyOpenFiles

OnFlushed = Callable[[DiskError | None], None]

logger = EventLogger(__name__)


class FlushScope(NamedTuple):
    """What one flush of a log has to sync; with an `error` nothing is synced."""

    files: list[File]
    directories: list[str]
    error: DiskError | None


class Flushable(Protocol):
    """A log, as the flusher sees it."""

    @property
    def end_offset(self) -> int: ...
    @property
    def flushed_offset(self) -> int: ...

    def begin_flush(self) -> FlushScope:
        """Take the end offset as the target of a flush and return what has to be synced."""
        ...

    def end_flush(self, target: int, error: DiskError | None) -> DiskError | None:
        """Apply the outcome of the flush up to `target`; returns the error that waiters get."""
        ...


class LogFlush:
    """The flushes of one log.

    Invariants: at most one flush is in flight, and the log is queued at most once; `target` is an
    offset that a finished or running flush covers; every callback is called exactly once, and
    never from inside a call of this object.
    """

    __slots__ = (
        "_error",
        "_flusher",
        "_listener",
        "_log",
        "_next",
        "_outstanding",
        "_timer",
        "_waiting",
        "is_queued",
        "target",
    )

    def __init__(self, flusher: "Flusher", log: Flushable) -> None:
        self._flusher = flusher
        self._log = log
        self.target = log.flushed_offset
        self.is_queued = False  # for the next round
        self._outstanding = 0  # syncs of the flush in flight
        self._error: DiskError | None = None
        self._waiting: list[OnFlushed] = []  # for the flush in flight
        self._next: list[OnFlushed] = []  # for the one after it
        self._listener: OnFlushed | None = None
        self._timer: TimerHandle | None = None

    # Requests

    def request(self, offset: int) -> None:
        """Flush everything below `offset`, unless a finished or running flush covers it."""
        if offset > self.target and not self.is_queued:
            self._queue()

    def request_within(self, delay_ms: int) -> None:
        """Flush everything that is written after `delay_ms`, unless a flush starts before."""
        if self._timer is None and not self.is_queued:
            self._timer = self._flusher.timer.after(delay_ms, self._delay_is_over)

    def when_flushed(self, done: OnFlushed) -> None:
        """Call `done` once everything that is written now is on disk, or with the error."""
        self._next.append(done)
        if not self.is_queued:
            self._queue()

    def listen(self, listener: OnFlushed | None) -> None:
        """Call `listener` after every flush of this log, and after its waiters; None ends that and
        cancels a delayed flush."""
        self._listener = listener
        if listener is None:
            self._cancel_timer()

    def truncated(self, offset: int) -> None:
        """The log was truncated: no earlier flush covers what is appended from `offset` on."""
        self.target = min(self.target, offset)

    def _queue(self) -> None:
        self._cancel_timer()
        self.is_queued = True
        self._flusher.queue(self)

    def _delay_is_over(self) -> None:
        self._timer = None
        self.request(self._log.end_offset)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # One flush

    def start(self) -> None:
        """Start the syncs of this log's flush; called by the flusher when a round begins."""
        self.is_queued = False
        self._waiting, self._next = self._next, []
        self.target = self._log.end_offset
        started = 0
        self._error = None
        try:
            files, directories, self._error = self._log.begin_flush()
            if self._error is None:
                for directory in directories:
                    self._flusher.disk.sync_directory_later(directory, self._synced)
                    started += 1
                for file in files:
                    file.sync_later(self._synced)
                    started += 1
        except Exception as error:  # a bug here must not stop the flushes of all other logs
            logger.exception("flush cannot begin")
            self._error = DiskError("", f"flush cannot begin: {error}")
        self._outstanding = started
        if not started:
            self._outstanding = 1
            self._flusher.timer.after(0, self._nothing_to_sync)

    def _nothing_to_sync(self) -> None:
        self._synced(None)

    def _synced(self, error: DiskError | None) -> None:
        if error is not None and (self._error is None or isinstance(self._error, TooManyOpenFiles)):
            self._error = error  # a lack of descriptors must not hide a failed fsync
        self._outstanding -= 1
        if not self._outstanding:
            self._finish()

    def _finish(self) -> None:
        try:
            error = self._log.end_flush(self.target, self._error)
        except Exception as failure:  # a bug here must not stop the flushes of all other logs
            logger.exception("flush cannot end")
            error = DiskError("", f"flush cannot end: {failure}")
        if error is not None:
            self.target = self._log.flushed_offset
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            _call(done, error)
        if self._listener is not None:
            _call(self._listener, error)
        self._flusher.ended()


class Flusher:
    """All flushes of a data directory. Invariant: at most one round is in flight."""

    __slots__ = ("_in_flight", "_queued", "disk", "timer")

    def __init__(self, disk: Disk, timer: Timer) -> None:
        self.disk = disk
        self.timer = timer
        self._queued: list[LogFlush] = []
        self._in_flight = 0

    def attach(self, log: Flushable) -> LogFlush:
        """The flushes of `log`."""
        return LogFlush(self, log)

    def queue(self, flush: LogFlush) -> None:
        """Flush this log in the next round, which begins now if none is in flight."""
        self._queued.append(flush)
        if not self._in_flight:
            self._begin_round()

    def ended(self) -> None:
        """One flush of the round is over."""
        self._in_flight -= 1
        if not self._in_flight and self._queued:
            self._begin_round()

    def _begin_round(self) -> None:
        flushes, self._queued = self._queued, []
        self._in_flight = len(flushes)
        for flush in flushes:
            flush.start()


def _call(done: OnFlushed, error: DiskError | None) -> None:
    """Call a waiter; one that raises must not keep the others waiting."""
    try:
        done(error)
    except Exception:
        logger.exception("a waiter for a flush failed")
