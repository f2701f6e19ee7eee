"""When logs are flushed: in rounds, all that somebody waits for at once.

Syncs that run side by side share the file system's journal, and one sync commits all that was
written to a file since the last; so a round begins as soon as somebody waits and none is under way,
and whoever comes meanwhile goes with the next. After a round that wrote much, the next waits a
moment: producers that fill their pipelines lose nothing by it, and every sync commits more.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sawlog.core.ports import Timer

BUSY_BYTES = 256 * 1024
"""A round that commits as much shows a pipeline in full flow."""

BUSY_PAUSE_MS = 3


class Flushable(Protocol):
    def start_flush(self) -> int:
        """Starts a flush of all that is written and returns how many bytes that is; calls
        `CommitRounds.settled` when it is over, however it ended, and never from inside."""
        ...


class CommitRounds:
    """Invariant: at most one round is under way or about to begin."""

    __slots__ = ("_is_busy", "_left", "_timer", "_wanted", "_written")

    def __init__(self, timer: "Timer") -> None:
        self._timer = timer
        self._wanted: dict[Flushable, None] = {}
        self._is_busy = False  # from the beginning of a round to the end of the pause after it
        self._left = 0
        self._written = 0

    def want(self, log: Flushable) -> None:
        """This log is flushed with the next round, which begins now if it can."""
        self._wanted[log] = None
        if not self._is_busy:
            self._begin()

    def settled(self) -> None:
        """One flush of the round is over."""
        self._left -= 1
        if self._left == 0:
            if self._written >= BUSY_BYTES:
                self._timer.after(BUSY_PAUSE_MS, self._begin)
            else:
                self._begin()

    def _begin(self) -> None:
        logs, self._wanted = self._wanted, {}
        self._is_busy = bool(logs)
        self._left = len(logs)
        self._written = 0
        for log in logs:
            self._written += log.start_flush()
