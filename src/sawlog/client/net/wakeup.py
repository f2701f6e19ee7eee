"""A bell between threads: rung by any, and waited for together with sockets."""

import os
import select
import threading
import weakref
from collections.abc import Iterable

_MOST_RINGS = 4_096
_LONGEST_POLL_MS = 3_600_000


def wait_readable(descriptors: Iterable[int], timeout_ms: float) -> bool:
    """Wait until a descriptor can be read, has ended or was closed; False after the timeout.

    Uses poll: `select` takes no descriptor above 1023.
    """
    waiter = select.poll()
    for descriptor in descriptors:
        if descriptor < 0:
            return True  # closed: the next read reports it
        waiter.register(descriptor, select.POLLIN)
    return bool(waiter.poll(min(max(timeout_ms, 0.0), _LONGEST_POLL_MS)))


class Wakeup:
    """One thread waits, any may ring. A ring before the wait ends it at once; several are one."""

    def __init__(self) -> None:
        reader, self._writer = os.pipe()
        self._reader = reader
        for end in (reader, self._writer):
            os.set_blocking(end, False)
        self._lock = threading.Lock()
        self._close = weakref.finalize(self, _close, reader, self._writer)
        self._close.atexit = False  # a thread may wait for it until the process is gone

    def fileno(self) -> int:
        return self._reader

    def signal(self) -> None:
        with self._lock:  # once closed the number may be another file's
            if self._close.alive:
                try:
                    os.write(self._writer, b"\0")
                except BlockingIOError:  # it has been rung often enough
                    pass

    def clear(self) -> bool:
        """Takes back what was rung; whether anything was."""
        try:
            return bool(os.read(self._reader, _MOST_RINGS))
        except BlockingIOError:
            return False

    def wait(self, timeout_ms: float | None, also: Iterable[int] = ()) -> None:
        """Until it rings, one of these descriptors can be read, or the time is up."""
        wait_readable([self._reader, *also], float("inf") if timeout_ms is None else timeout_ms)
        self.clear()

    def close(self) -> None:
        with self._lock:
            self._close()


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
