"""The order and the thread in which kazoo's results reach the event loop."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.protocol.states import Callback

from sawlog.server.kazoo_handler import LoopHandler


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def handler(loop: asyncio.AbstractEventLoop) -> LoopHandler:
    return LoopHandler(loop, attempt_s=1)


def test_a_result_keeps_its_place_before_the_watch_events_that_follow_it(
    loop: asyncio.AbstractEventLoop, handler: LoopHandler
) -> None:
    seen: list[tuple[str, bool]] = []

    def note(what: Any) -> None:
        seen.append((what, threading.current_thread() is threading.main_thread()))

    first, second = handler.async_result(), handler.async_result()

    def connection() -> None:
        first.set("first")
        handler.dispatch_callback(Callback("watch", note, ("event",)))
        second.set_exception(ValueError())

    thread = threading.Thread(target=connection)
    thread.start()
    thread.join()
    first.on_result = note
    second.on_result = lambda error: note(type(error).__name__)
    assert seen == []
    loop.run_until_complete(asyncio.sleep(0))
    assert seen == [("first", True), ("event", True), ("ValueError", True)]


def test_thousands_of_requests_wake_the_connection_without_blocking(handler: LoopHandler) -> None:
    reader, writer = handler.create_socket_pair()
    for _ in range(100_000):
        writer.send(b"\0")
    for _ in range(100_000):
        assert handler.select([reader], [], [], 0) == ([reader], [], [])
        reader.recv(1)
    assert handler.select([reader], [], [], 0) == ([], [], [])
    for end in (writer, reader):
        end.close()


def test_a_result_after_the_end_of_the_loop_is_ignored(
    loop: asyncio.AbstractEventLoop, handler: LoopHandler
) -> None:
    loop.close()
    handler.async_result().set("late")
