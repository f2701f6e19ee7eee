"""Tells a connection that does nothing, or that stalls inside a frame, from one at work.

Asked now and then by the listener's sweep, so that a request costs no timer and no look at a
clock: in between, a connection only leaves a mark that something happened.
"""

from sawlog.server.connection_limits import Limits


class Watch:
    """One connection's signs of life."""

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
        # When the frame under way was looked at, for how long it could have grown by then, which
        # one it is, and how long it was when that time began
        self._frame_ms = now_ms
        self._frame_spent_ms = 0
        self._frame_completed = -1
        self._frame_bytes = 0

    def is_idle(self, now_ms: int, limits: Limits, *, is_awaited: bool) -> bool:
        """`is_awaited`: the next step is ours, so the client has every right to be silent."""
        if self.is_active or is_awaited:
            self.is_active = False
            self._seen_ms = now_ms
            return False
        return 0 <= limits.idle_ms <= now_ms - self._seen_ms

    def is_stalled(self, now_ms: int, limits: Limits, completed: int, unfinished: int) -> bool:
        """`completed` frames came so far, and `unfinished` bytes of one more (0: none)."""
        if unfinished == 0 or completed != self._frame_completed:
            self._look(now_ms, completed if unfinished else -1, unfinished)
            return False
        self._frame_spent_ms += now_ms - self._frame_ms
        self._frame_ms = now_ms
        if self._frame_spent_ms < limits.stall_ms:
            return False
        if unfinished - self._frame_bytes < limits.stall_bytes:
            return True
        self._look(now_ms, completed, unfinished)
        return False

    def does_not_count(self, now_ms: int) -> None:
        """The connection is not read, so that its frame cannot grow."""
        self._frame_ms = now_ms

    def _look(self, now_ms: int, completed: int, unfinished: int) -> None:
        self._frame_ms = now_ms
        self._frame_spent_ms = 0
        self._frame_completed = completed
        self._frame_bytes = unfinished
