"""Connects kazoo's connection thread to the event loop: results and watch events in one order.

kazoo's own handler runs results and watch events in two threads, which may swap a watch event and a
result that shows the change. This one posts both to the loop in the order in which the connection
received them. A result is posted when it arrives, not when its callback is set, so a result never
comes from inside the call, nor after the events that follow it.
"""

import asyncio
import contextlib
import logging
import math
import os
import select
import threading
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

OnResult = Callable[[Any], None]
kazoo_logger = logging.getLogger("sawlog.server.kazoo")
kazoo_logger.setLevel(logging.ERROR)  # the store reports lost and restored connections itself


class PostedResult:
    """The result of one request: a value, or an exception as a value.

    kazoo calls `set` or `set_exception` in any thread; `on_result` is set on the loop, in the same
    turn as the request, and called in a later one.
    """

    __slots__ = ("_post", "on_result")

    def __init__(self, post: Callable[..., None]) -> None:
        self._post = post
        self.on_result: OnResult | None = None

    def set(self, value: Any = None) -> None:
        self._post(self._deliver, value)

    def set_exception(self, exception: Exception) -> None:
        self._post(self._deliver, exception)

    def _deliver(self, value: Any) -> None:
        if self.on_result is not None:
            self.on_result(value)


class _Wakeup:
    """Both ends of the pair by which a request wakes kazoo's thread: it counts requests.

    kazoo's own pair is a socket, whose buffer has room for a few hundred unread bytes. The caller
    of the next request blocks, for as long as the connection is down, and that is the event loop.
    """

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()

    def send(self, _: bytes) -> None:
        with self._lock:  # `close` is called in another thread
            os.eventfd_write(self._fd, 1)

    def recv(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler without its two worker threads: the loop takes their place.

    An attempt to connect takes at most `attempt_s`. kazoo would give it the whole session timeout,
    and a server that is starting may leave a client without a response.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, attempt_s: float) -> None:
        super().__init__()
        self._loop = loop
        self._attempt_s = attempt_s
        self._is_connecting = False  # used in kazoo's thread only

    def create_connection(self, *arguments: Any, timeout: float, **more: Any) -> Any:
        self._is_connecting = True
        return super().create_connection(*arguments, timeout=min(timeout, self._attempt_s), **more)

    def connected(self) -> None:
        """The ensemble has accepted the session; called in kazoo's thread."""
        self._is_connecting = False

    def select(
        self, readers: list[Any], writers: list[Any], _: list[Any], timeout: float
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait with poll(2). kazoo's own creates and closes an epoll descriptor for each of its
        calls, and there is one for every request and every response."""
        if self._is_connecting:
            timeout = min(timeout, self._attempt_s)
        poll = select.poll()
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poll.poll(math.ceil(timeout * 1000))}
        return (
            [reader for reader in readers if reader.fileno() in ready],
            [writer for writer in writers if writer.fileno() in ready],
            [],
        )

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def create_socket_pair(self) -> tuple[_Wakeup, _Wakeup]:
        wakeup = _Wakeup()
        return wakeup, wakeup

    def post(self, action: Callable[..., None], *arguments: Any) -> None:
        """Call `action` on the loop, from any thread; ignored after the loop was closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action, *arguments)

    def async_result(self) -> PostedResult:
        return PostedResult(self.post)

    def dispatch_callback(self, callback: Any) -> None:
        self.post(callback.func, *callback.args)
