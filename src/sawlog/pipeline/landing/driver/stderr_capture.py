"""Keeps what other processes print from the terminal: Spark's JVM warns of itself and repeats the
tracebacks of workers that are tried again. The last lines are kept, for when it comes to nothing.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_KEPT_LINES = 40
_LONGEST_LINE = 8_192
_LAST_WORDS_S = 2.0
_STDERR = 2


class StderrCapture:
    """Reads to the end what comes, so that nobody who writes ever waits."""

    def __init__(self, descriptor: int) -> None:
        self._lines: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self._descriptor = descriptor
        self._thread = threading.Thread(target=self._read, name="sawlog-aside", daemon=True)
        self._thread.start()

    def last(self) -> str:
        """The last lines of processes that have ended."""
        self._thread.join(_LAST_WORDS_S)
        return b"".join(self._lines.copy()).decode(errors="replace").strip()

    def _read(self) -> None:
        with open(self._descriptor, "rb") as source:
            while line := source.readline(_LONGEST_LINE):
                self._lines.append(line)


@contextmanager
def captured_stderr() -> Iterator[StderrCapture]:
    """The stderr of processes that are started within the block, for as long as they live. Whoever
    writes to this process's own meanwhile is heard there as well.
    """
    sys.stderr.flush()
    own = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    try:
        yield StderrCapture(reading)
    finally:
        sys.stderr.flush()
        os.dup2(own, _STDERR)
        os.close(own)
