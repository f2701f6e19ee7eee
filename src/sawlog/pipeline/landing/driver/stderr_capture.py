"""Captures the stderr of Spark's JVM and workers, which is noisy, and keeps its last lines."""

import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_KEPT_LINES = 40
_MAX_LINE_BYTES = 8_192
_LAST_WORDS_S = 2.0
_STDERR = 2


class StderrCapture:
    """Reads a pipe to its end, so that its writers never block."""

    def __init__(self, descriptor: int) -> None:
        self._lines: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self._descriptor = descriptor
        self._thread = threading.Thread(
            target=self._read, name="sawlog-stderr-capture", daemon=True
        )
        self._thread.start()

    def last(self) -> str:
        """The last lines, after the writers have exited."""
        self._thread.join(_LAST_WORDS_S)
        return b"".join(self._lines.copy()).decode(errors="replace").strip()

    def _read(self) -> None:
        with open(self._descriptor, "rb") as source:
            while line := source.readline(_MAX_LINE_BYTES):
                self._lines.append(line)


@contextmanager
def captured_stderr() -> Iterator[StderrCapture]:
    """Capture the stderr of processes started in the block, for as long as they live.

    What this process writes to stderr in the block is captured too.
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
