"""Waiting for sockets together with signals from other threads."""

import os
import select
import threading
import weakref
from collections.abc import Iterable

_MAX_SIGNALS = 4_096
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
    """Any thread may signal, one waits.

    A signal before the wait ends it at once; several signals count as one.
    """

    def __init__(self) -> None:
        reader, self._writer = os.pipe()
        self._reader = reader
        for end in (reader, self._writer):
            os.set_blocking(end, False)
        self._lock = threading.Lock()
        self._close = weakref.finalize(self, _close, reader, self._writer)
        self._close.atexit = False  # daemon threads may wait for it until the process has exited

    def fileno(self) -> int:
        return self._reader

    def signal(self) -> None:
        with self._lock:  # a closed descriptor may be another file's by now
            if self._close.alive:
                try:
                    os.write(self._writer, b"\0")
                except BlockingIOError:  # the pipe is full of signals
                    pass

    def clear(self) -> bool:
        """Drop pending signals; returns whether there were any."""
        try:
            return bool(os.read(self._reader, _MAX_SIGNALS))
        except BlockingIOError:
            return False

    def wait(self, timeout_ms: float | None, also: Iterable[int] = ()) -> None:
        """Wait for a signal or until one of these descriptors can be read."""
        wait_readable([self._reader, *also], float("inf") if timeout_ms is None else timeout_ms)
        self.clear()

    def close(self) -> None:
        with self._lock:
            self._close()


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
