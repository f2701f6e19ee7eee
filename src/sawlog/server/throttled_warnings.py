"""Log lines that clients can cause, at most one a second of each kind, however hard they try."""

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Clock

logger = EventLogger(__name__)

_INTERVAL_MS = 1000


class ThrottledWarnings:
    """The next line of a kind says how many of it went unmentioned."""

    __slots__ = ("_clock", "_said")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[str, tuple[int, int]] = {}  # by event: when it was said, how many since

    def warning(self, event: str, **fields: object) -> None:
        unmentioned = self._unmentioned(event)
        if unmentioned is not None:
            logger.warning(event, **fields, unmentioned=unmentioned)

    def exception(self, event: str, **fields: object) -> None:
        """With the traceback of the exception being handled."""
        unmentioned = self._unmentioned(event)
        if unmentioned is not None:
            logger.exception(event, **fields, unmentioned=unmentioned)

    def _unmentioned(self, event: str) -> int | None:
        """None: not now."""
        now_ms = self._clock.monotonic_ms()
        said_ms, unmentioned = self._said.get(event, (now_ms - _INTERVAL_MS, 0))
        if now_ms - said_ms < _INTERVAL_MS:
            self._said[event] = (said_ms, unmentioned + 1)
            return None
        self._said[event] = (now_ms, 0)
        return unmentioned
