"""Structured logging on the standard library's loggers: an event in plain words and its fields.

`server/` decides where log lines go and how they look.
"""

import logging
from typing import Any

from sawlog.core.ports import Clock

_THROTTLE_MS = 1000


class EventLogger:
    """`logger.warning("torn tail truncated", log=tp, from_offset=17)`: an event and its fields."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: Any) -> None:
        self._emit(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._emit(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._emit(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._emit(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log an error with the traceback of the exception being handled."""
        self._logger.error(event, exc_info=True, extra={"fields": fields})

    def _emit(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": fields})


class ThrottledLogger:
    """Writes at most one line per second and event, for events that clients can cause at will.

    The next line of an event has the number of lines that were suppressed before it.
    """

    __slots__ = ("_clock", "_logger", "_written")

    def __init__(self, logger: EventLogger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._written: dict[str, tuple[int, int]] = {}  # by event: last line at, suppressed since

    def warning(self, event: str, **fields: Any) -> None:
        suppressed = self._admit(event)
        if suppressed is not None:
            self._logger.warning(event, **fields, suppressed=suppressed)

    def exception(self, event: str, **fields: Any) -> None:
        """Log an error with the traceback of the exception being handled."""
        suppressed = self._admit(event)
        if suppressed is not None:
            self._logger.exception(event, **fields, suppressed=suppressed)

    def _admit(self, event: str) -> int | None:
        """Return how many lines were suppressed since the last; None to suppress this one too."""
        now_ms = self._clock.monotonic_ms()
        written_ms, suppressed = self._written.get(event, (now_ms - _THROTTLE_MS, 0))
        if now_ms - written_ms < _THROTTLE_MS:
            self._written[event] = (written_ms, suppressed + 1)
            return None
        self._written[event] = (now_ms, 0)
        return suppressed
