"""Signals, descriptors and garbage collection of the broker's process."""

import asyncio
import gc
import os
import resource
import signal
from collections.abc import Iterator

import pytest

from sawlog.server.process import (
    freeze_garbage_collector,
    on_stop_signal,
    raise_descriptor_limit,
    run,
)


@pytest.fixture
def _collector_as_it_was() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_stops_and_the_second_exits(first: signal.Signals) -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> list[object]:
        events: list[object] = []
        left = loop.create_future()

        def leave(code: int) -> None:
            events.append(code)
            left.set_result(None)

        def stop() -> None:
            events.append("stop")
            os.kill(os.getpid(), signal.SIGTERM)

        on_stop_signal(loop, stop, leave)
        os.kill(os.getpid(), first)
        async with asyncio.timeout(30):
            await left
        return events

    assert run(main) == ["stop", 128 + signal.SIGTERM]


def test_the_descriptor_limit_is_raised_to_the_hard_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
        assert raise_descriptor_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_collector_as_it_was")
def test_objects_of_the_start_are_frozen() -> None:
    freeze_garbage_collector()
    assert gc.get_freeze_count() > 1000
    assert gc.get_threshold()[0] > 700


def test_the_loop_is_uvloop() -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> str:
        return type(loop).__module__

    assert run(main).startswith("uvloop")
