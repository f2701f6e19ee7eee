"""Listeners: accepting, limits, idle timeouts and shutdown."""

import asyncio
import errno
import os
import socket
from pathlib import Path

import pytest

from sawlog.core.ports import Exchange
from sawlog.server.address import Address
from sawlog.server.connection_limits import ConnectionLimits
from support.server.shell import ScriptedApplication, Shell, StoredFile, framed, run

MIB = 1 << 20


def park(exchange: Exchange, request: bytes) -> None:
    """Leave the request pending."""


def test_the_application_is_notified_of_connections() -> None:
    async def test() -> None:
        async with Shell() as shell:
            client = await shell.client()
            await client.request(b"x")
            [known] = shell.application.clients
            assert known.host == "127.0.0.1"
            client.close()
            await shell.until(lambda: shell.application.closed == [known])
            assert shell.listener.connections == 0

    run(test)


def test_many_connections_come_and_go_on_the_same_descriptors() -> None:
    async def test() -> None:
        async with Shell() as shell:
            for _ in range(30):
                clients = [await shell.client() for _ in range(5)]
                for client in clients:
                    assert await client.request(b"x") == b"x"
                    client.close()
            await shell.until(lambda: len(shell.application.closed) == 150)
            assert (shell.listener.connections, shell.resources.quota.total) == (0, 0)

    run(test)


def test_an_idle_connection_is_closed_after_the_timeout() -> None:
    async def test() -> None:
        async with Shell(limits=ConnectionLimits(idle_ms=60_000)) as shell:
            idle, busy = await shell.client(), await shell.client()
            await idle.request(b"x")
            for _ in range(14):
                await busy.request(b"x")
                shell.clock.advance(5_000)
            assert await idle.is_closed()
            assert await busy.request(b"x") == b"x"

    run(test)


def test_a_client_that_waits_for_its_response_is_not_idle() -> None:
    async def test() -> None:
        async with Shell(ScriptedApplication(park), ConnectionLimits(idle_ms=60_000)) as shell:
            client = await shell.client()
            await client.send(framed(b"x"))
            await shell.until(lambda: len(shell.application.exchanges) == 1)
            shell.clock.advance(600_000)
            shell.application.exchanges[0].answer([framed(b"at last")])
            assert await client.answer() == b"at last"

    run(test)


@pytest.mark.parametrize("beginning", [b"\0", b"\0\0\0\x09abc", framed(bytes(MIB))[:200_000]])
def test_a_connection_that_stalls_inside_a_frame_is_closed(beginning: bytes) -> None:
    async def test() -> None:
        async with Shell(limits=ConnectionLimits(stall_ms=10_000)) as shell:
            stalled = await shell.client()
            await stalled.send(beginning)
            await shell.until(lambda: shell.resources.frame_memory.bytes_received == len(beginning))
            shell.clock.advance(20_000)
            assert await stalled.is_closed()
            assert shell.resources.budget.taken == 0

    run(test)


def test_a_client_that_reads_nothing_is_closed_as_idle(tmp_path: Path) -> None:
    file = StoredFile(tmp_path / "log", bytes(64 * MIB))

    async def test() -> None:
        application = ScriptedApplication(lambda exchange, _: exchange.answer([file.slice()]))
        async with Shell(application, ConnectionLimits(idle_ms=60_000)) as shell:
            await (await shell.client()).send(framed(b"x"))
            await shell.until(lambda: file.pins == 1)
            await shell.settle()
            shell.clock.advance(130_000)
            await shell.until(lambda: shell.listener.connections == 0)
        assert file.pins == 0

    run(test)


def test_connections_beyond_the_limit_are_rejected_until_others_close() -> None:
    async def test() -> None:
        async with Shell(limits=ConnectionLimits(connections_per_ip=2)) as shell:
            first, second = await shell.client(), await shell.client()
            assert await second.request(b"x") == b"x"
            assert await (await shell.client()).is_closed()
            assert shell.resources.quota.rejected == 1
            first.close()
            await shell.until(lambda: shell.listener.connections == 1)
            assert await (await shell.client()).request(b"x") == b"x"

    run(test)


def test_a_connection_waits_when_the_frame_budget_is_used_up() -> None:
    async def test() -> None:
        async with Shell(limits=ConnectionLimits(frames_total_bytes=MIB)) as shell:
            first, second, third = [await shell.client() for _ in range(3)]
            large = framed(bytes(700_000))
            await first.send(large[:300_000])
            await shell.until(lambda: shell.resources.budget.taken == 700_000)
            await second.send(large[:300_000])
            await shell.until(lambda: shell.resources.budget.waiting == 1)
            assert await third.request(b"heartbeat") == b"heartbeat"
            assert shell.resources.budget.taken <= MIB
            await first.send(large[300_000:])
            assert len(await first.answer()) == 700_000
            await second.send(large[300_000:])
            assert len(await second.answer()) == 700_000
            assert shell.resources.budget.taken == 0

    run(test)


def test_announced_lengths_do_not_block_other_connections() -> None:
    async def test() -> None:
        async with Shell() as shell:
            received = shell.resources.frame_memory
            for number in range(1, 6):
                await (await shell.client()).send((100 * MIB).to_bytes(4, "big") + bytes(10))
                await shell.until(lambda number=number: received.bytes_received == 14 * number)
            assert await (await shell.client()).request(bytes(8 * MIB)) == bytes(8 * MIB)
            assert shell.resources.budget.waiting == 0

    run(test)


def test_concurrent_frames_that_fill_the_budget_all_arrive() -> None:
    async def test() -> None:
        async with Shell(limits=ConnectionLimits(frames_total_bytes=MIB)) as shell:
            clients = [await shell.client() for _ in range(4)]
            bodies = [bytes([number]) * 3 * MIB for number in range(4)]
            answers = await asyncio.gather(
                *(client.request(body) for client, body in zip(clients, bodies, strict=True))
            )
            assert answers == bodies
            assert shell.resources.budget.taken == 0

    run(test)


def test_running_out_of_descriptors_only_pauses_accepting() -> None:
    class Exhausted(socket.socket):
        """A listening socket whose accept fails a given number of times."""

        failures = 1

        def accept(self) -> tuple[socket.socket, object]:
            if Exhausted.failures:
                Exhausted.failures -= 1
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().accept()

    async def test() -> None:
        shell = Shell()
        [bound] = shell.listener._sockets
        shell.listener._sockets[0] = Exhausted(fileno=bound.detach())
        async with shell:
            client = await shell.client()
            await client.send(framed(b"patience"))
            await shell.until(lambda: Exhausted.failures == 0)
            await shell.settle()
            assert shell.listener.connections == 0
            shell.clock.advance(1_000)
            assert await client.answer() == b"patience"

    run(test)


def test_garbage_and_immediate_disconnects_do_no_harm() -> None:
    async def test() -> None:
        async with Shell() as shell:
            for garbage in (
                b"GET / HTTP/1.1\r\n\r\n",
                b"\x16\x03\x01\x02\x00",
                b"",
                os.urandom(99),
            ):
                client = await shell.client()
                await client.send(garbage)
                client.close()
            other = await shell.client()
            assert await other.request(b"x") == b"x"
            await shell.until(lambda: shell.listener.connections == 1)
            assert shell.resources.budget.taken == 0

    run(test)


def test_a_stop_sends_pending_responses_and_reads_no_new_requests(tmp_path: Path) -> None:
    file = StoredFile(tmp_path / "log", os.urandom(16 * MIB))

    def script(exchange: Exchange, request: bytes) -> None:
        if request == b"slice":
            exchange.answer([file.size.to_bytes(4, "big"), file.slice()])

    async def test() -> None:
        async with Shell(ScriptedApplication(script)) as shell:
            reader, parked, idle = [await shell.client() for _ in range(3)]
            await reader.send(framed(b"slice"))
            await parked.send(framed(b"parked"))
            await shell.until(lambda: len(shell.application.exchanges) == 2)
            stopping = shell.loop.create_task(shell.listener.drain(grace_ms=5_000))
            await shell.settle()
            await parked.send(framed(b"too late"))
            assert await idle.is_closed()
            assert len(await reader.answer()) == file.size
            assert await reader.is_closed()
            shell.application.exchanges[1].answer([framed(b"just in time")])
            assert await parked.answer() == b"just in time"
            await stopping
            assert len(shell.application.requests) == 2

    run(test)


def test_a_stop_has_a_timeout() -> None:
    async def test() -> None:
        async with Shell(ScriptedApplication(park)) as shell:
            client = await shell.client()
            await client.send(framed(b"parked"))
            await shell.until(lambda: len(shell.application.exchanges) == 1)
            stopping = shell.loop.create_task(shell.listener.drain(grace_ms=500))
            await shell.settle()
            assert not stopping.done()
            shell.clock.advance(500)
            await stopping
            assert await client.is_closed()

    run(test)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_ipv6_wildcard_accepts_ipv4_clients(host: str) -> None:
    async def test() -> None:
        async with Shell() as shell:
            listener = shell.listening_on(Address("::", 0))
            listener.open()
            with socket.create_connection((host, listener.address.port)):
                await shell.until(lambda: bool(shell.application.clients))
            assert shell.application.clients[0].host == host
            listener.close()

    run(test)


def test_a_listener_accepts_ipv6_and_names() -> None:
    async def test() -> None:
        async with Shell() as shell:
            listener = shell.listening_on(Address("::1", 0))
            listener.open()
            with socket.create_connection(("::1", listener.address.port)):
                await shell.until(lambda: len(shell.application.clients) == 1)
            assert shell.application.clients[0].host == "::1"
            listener.close()

    run(test)
