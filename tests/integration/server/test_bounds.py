"""Limits on the memory and the time that one connection can use."""

from pathlib import Path

import pytest

from sawlog.core.ports import Exchange
from sawlog.server.connection_limits import ConnectionLimits
from sawlog.server.frames import FRAMES_PER_TURN, TURN_MS
from support.server.shell import ScriptedApplication, Shell, StoredFile, framed, run

LARGE = framed(bytes(50_000))


def park_first(exchange: Exchange, request: bytes) -> None:
    """Give large responses to all requests but the first, which stays pending."""
    if request != b"first":
        exchange.answer([LARGE])


@pytest.mark.parametrize("is_burst", [True, False])
def test_responses_behind_a_pending_one_are_bounded(is_burst: bool) -> None:
    async def test() -> None:
        application = ScriptedApplication(park_first)
        async with Shell(application, ConnectionLimits(waiting_bytes=180_000)) as shell:
            client = await shell.client()
            requests = [framed(b"first"), *[framed(b"more")] * 30]
            if is_burst:
                requests = [b"".join(requests)]
            for request in requests:
                await client.send(request)
                await shell.settle()
            await shell.until(lambda: len(application.requests) >= 5)
            await shell.settle()
            assert len(application.requests) == 5, "four answers are too much, three are not"
            application.exchanges[0].answer([framed(b"at last")])
            assert await client.answer() == b"at last"
            for _ in range(30):
                assert framed(await client.answer()) == LARGE

    run(test)


def test_responses_in_files_do_not_count_as_memory(tmp_path: Path) -> None:
    file = StoredFile(tmp_path / "log", bytes(50_000))

    def script(exchange: Exchange, request: bytes) -> None:
        if request != b"first":
            exchange.answer([LARGE[:4], file.slice()])

    async def test() -> None:
        application = ScriptedApplication(script)
        async with Shell(application, ConnectionLimits(waiting_bytes=180_000)) as shell:
            client = await shell.client()
            await client.send(framed(b"first") + framed(b"more") * 30)
            await shell.until(lambda: len(application.requests) == 31)

    run(test)


def test_slow_requests_do_not_starve_other_connections() -> None:
    async def test() -> None:
        application = ScriptedApplication()
        async with Shell(application) as shell:

            def script(exchange: Exchange, request: bytes) -> None:
                shell.clock.advance(TURN_MS)
                exchange.answer([framed(request)])

            application.script = script
            slow, other = await shell.client(), await shell.client()
            for client in (slow, other):
                await client.request(b"hello")
            await slow.send(framed(b"slow") * FRAMES_PER_TURN)
            await other.request(b"other")
            assert application.requests.count(b"slow") < FRAMES_PER_TURN
            for _ in range(FRAMES_PER_TURN):
                await slow.answer()

    run(test)
