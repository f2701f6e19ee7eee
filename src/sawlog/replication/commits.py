"""When logs are flushed: in rounds, all that somebody waits for at once.

Syncs that run side by side share the file system's work, and one sync commits all that was written
to a file since the last; so a round begins as soon as somebody waits and none is under way, and
whoever comes meanwhile goes with the next.
"""

from typing import Protocol


class Flushable(Protocol):
    def start_flush(self) -> None:
        """Starts a flush of all that is written; calls `CommitRounds.settled` when it is over,
        however it ended, and never from inside."""
        ...


class CommitRounds:
    """Invariant: at most one round is under way."""

    __slots__ = ("_left", "_wanted")

    def __init__(self) -> None:
        self._wanted: dict[Flushable, None] = {}
        self._left = 0

    def want(self, log: Flushable) -> None:
        """This log is flushed with the next round, which begins now if it can."""
        self._wanted[log] = None
        if self._left == 0:
            self._begin()

    def settled(self) -> None:
        """One flush of the round is over."""
        self._left -= 1
        if self._left == 0:
            self._begin()

    def _begin(self) -> None:
        logs, self._wanted = self._wanted, {}
        self._left = len(logs)
        for log in logs:
            log.start_flush()
