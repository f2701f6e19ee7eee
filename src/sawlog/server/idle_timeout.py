"""Detects connections that are idle or stall inside a frame.

The listener checks all connections periodically, so that a request costs neither a timer nor a
clock call: a connection only sets `is_active`.
"""

from sawlog.server.connection_limits import ConnectionLimits


class IdleTimeout:
    """The activity of one connection since the last check."""

    __slots__ = (
        "_frame_bytes",
        "_frame_completed",
        "_frame_ms",
        "_frame_spent_ms",
        "_seen_ms",
        "is_active",
    )

    def __init__(self, now_ms: int) -> None:
        self.is_active = False
        self._seen_ms = now_ms
        # Of the incomplete frame: the last check, the time that counts so far, the number of
        # frames before it, and its size when that time began
        self._frame_ms = now_ms
        self._frame_spent_ms = 0
        self._frame_completed = -1
        self._frame_bytes = 0

    def is_idle(self, now_ms: int, limits: ConnectionLimits, *, is_our_turn: bool) -> bool:
        """Whether the client was idle too long. `is_our_turn`: the client waits for the broker."""
        if self.is_active or is_our_turn:
            self.is_active = False
            self._seen_ms = now_ms
            return False
        return 0 <= limits.idle_ms <= now_ms - self._seen_ms

    def is_stalled(
        self, now_ms: int, limits: ConnectionLimits, completed: int, unfinished: int
    ) -> bool:
        """Whether a frame makes too little progress: `completed` frames were received, and
        `unfinished` bytes of the next (0: none)."""
        if unfinished == 0 or completed != self._frame_completed:
            self._restart(now_ms, completed if unfinished else -1, unfinished)
            return False
        self._frame_spent_ms += now_ms - self._frame_ms
        self._frame_ms = now_ms
        if self._frame_spent_ms < limits.stall_ms:
            return False
        if unfinished - self._frame_bytes < limits.stall_bytes:
            return True
        self._restart(now_ms, completed, unfinished)
        return False

    def pause(self, now_ms: int) -> None:
        """The connection is not read now, so the time does not count for its frame."""
        self._frame_ms = now_ms

    def _restart(self, now_ms: int, completed: int, unfinished: int) -> None:
        self._frame_ms = now_ms
        self._frame_spent_ms = 0
        self._frame_completed = completed
        self._frame_bytes = unfinished
