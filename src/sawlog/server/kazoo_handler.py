"""Connects kazoo's connection thread to the event loop: results and watch events in one order.

kazoo's own handler runs results and watch events in two threads, which may swap a watch event and a
result that shows the change. This one posts both to the loop in the order in which the connection
received them. A result is posted when it arrives, not when its callback is set, so a result never
comes from inside the call, nor after the events that follow it.
"""

import asyncio
import contextlib
import logging
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

    def select(self, *arguments: Any) -> Any:
        if self._is_connecting:
            *sockets, timeout = arguments
            return super().select(*sockets, min(timeout, self._attempt_s))
        return super().select(*arguments)

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def post(self, action: Callable[..., None], *arguments: Any) -> None:
        """Call `action` on the loop, from any thread; ignored after the loop was closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action, *arguments)

    def async_result(self) -> PostedResult:
        return PostedResult(self.post)

    def dispatch_callback(self, callback: Any) -> None:
        self.post(callback.func, *callback.args)
