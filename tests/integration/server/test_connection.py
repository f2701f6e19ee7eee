"""Requests and responses over real sockets: complete, in order, and bounded."""

from pathlib import Path

import pytest

from sawlog.core.ports import Exchange
from sawlog.server.connection_limits import ConnectionLimits
from support.server.shell import ScriptedApplication, Shell, StoredFile, framed, run
from support.single_threaded import PeakMemory, single_threaded

MIB = 1 << 20


def park(exchange: Exchange, request: bytes) -> None:
    """Leave the request pending."""


def a_second_later(shell: Shell) -> Shell:
    shell.clock.advance(1000)
    return shell


def test_a_request_is_answered() -> None:
    async def test() -> None:
        async with Shell() as shell:
            client = await shell.client()
            assert await client.request(b"hello") == b"hello"
            assert await client.request(b"") == b""

    run(test)


def test_a_burst_is_answered_in_order() -> None:
    async def test() -> None:
        async with Shell() as shell:
            client = await shell.client()
            bodies = [b"%d" % number for number in range(1000)]
            await client.send(b"".join(map(framed, bodies)))
            assert [await client.answer() for _ in bodies] == bodies

    run(test)


def test_responses_are_sent_in_the_order_of_the_requests() -> None:
    async def test() -> None:
        async with Shell(ScriptedApplication(park)) as shell:
            client = await shell.client()
            await client.send(framed(b"a") + framed(b"b") + framed(b"c"))
            application = shell.application
            await shell.until(lambda: len(application.requests) == 3)
            for number in (2, 0, 1):
                application.exchanges[number].answer([framed(application.requests[number])])
            assert [await client.answer() for _ in range(3)] == [b"a", b"b", b"c"]

    run(test)


def test_a_request_without_a_response_gets_none() -> None:
    def script(exchange: Exchange, request: bytes) -> None:
        exchange.answer([] if request == b"quiet" else [framed(request)])

    async def test() -> None:
        async with Shell(ScriptedApplication(script)) as shell:
            client = await shell.client()
            await client.send(framed(b"quiet") * 200 + framed(b"loud"))
            assert await client.answer() == b"loud"

    run(test)


@pytest.mark.parametrize("size", [1, 70_000, MIB, 10 * MIB])
def test_large_requests_and_responses_are_complete(size: int) -> None:
    async def test() -> None:
        async with Shell() as shell:
            client = await shell.client()
            body = bytes(range(256)) * (size // 256) + bytes(size % 256)
            assert await client.request(body) == body
            assert await client.request(b"after") == b"after"
            assert shell.resources.budget.taken == 0

    run(test)


def test_a_response_of_buffers_and_slices_is_complete(tmp_path: Path) -> None:
    file = StoredFile(tmp_path / "log", bytes(range(256)) * 8192)

    def script(exchange: Exchange, request: bytes) -> None:
        exchange.answer(
            [
                (2 * MIB + 100 + 300_001 + 3).to_bytes(4, "big"),
                file.slice(),
                bytearray(b"x" * 50),
                file.slice(0, 0),
                memoryview(b"y" * 50),
                file.slice(77, 300_001),
                b"",
                file.slice(5, 1),
                b"zz",
            ]
        )

    async def test() -> None:
        content = bytes(range(256)) * 8192
        expected = content + b"x" * 50 + b"y" * 50 + content[77 : 77 + 300_001] + b"\x05zz"
        async with Shell(ScriptedApplication(script)) as shell:
            client = await shell.client()
            await client.send(framed(b"1") + framed(b"2"))
            assert await client.answer() == expected
            assert await client.answer() == expected
        assert file.pins == 0

    run(test)


def test_a_slow_client_costs_little_memory_and_delays_no_other(tmp_path: Path) -> None:
    single_threaded(serve_a_slow_and_a_quick_client, tmp_path)


def serve_a_slow_and_a_quick_client(tmp_path: Path) -> None:
    file = StoredFile(tmp_path / "log", bytes(8 * MIB))

    def script(exchange: Exchange, request: bytes) -> None:
        slices = [file.slice()] * 32 if request == b"all" else []
        exchange.answer([(32 * 8 * MIB if slices else 0).to_bytes(4, "big"), *slices])

    async def test() -> None:
        async with Shell(ScriptedApplication(script)) as shell:
            slow = await shell.client(receive_buffer_bytes=4096)
            quick = await shell.client()
            with PeakMemory() as peak:
                await slow.send(framed(b"all") * 30)
                for _ in range(100):
                    assert await quick.request(b"ping") == b""
            assert peak.bytes < MIB
            assert len(await slow.receive(20 * MIB)) == 20 * MIB
            slow.close()
            await shell.until(lambda: len(shell.application.closed) == 1)
        assert file.pins == 0

    run(test)


def test_reads_pause_while_a_client_does_not_read_responses() -> None:
    big = framed(bytes(100_000))

    async def test() -> None:
        application = ScriptedApplication(lambda exchange, request: exchange.answer([big]))
        async with Shell(application) as shell:
            greedy = await shell.client(receive_buffer_bytes=4096)
            await greedy.send(framed(b"more") * 150)
            other = await shell.client()
            for _ in range(20):
                await other.request(b"x")
            assert len(application.requests) < 20 + 120
            for _ in range(150):
                assert len(await greedy.answer()) == 100_000

    run(test)


def test_open_requests_of_a_connection_are_bounded() -> None:
    async def test() -> None:
        application = ScriptedApplication(park)
        async with Shell(application, ConnectionLimits(exchanges=8)) as shell:
            client = await shell.client()
            bodies = [b"%d" % number for number in range(50)]
            await client.send(b"".join(map(framed, bodies)))
            await shell.until(lambda: len(application.exchanges) == 8)
            await shell.settle()
            assert len(application.exchanges) == 8
            for number, body in enumerate(bodies):
                await shell.until(lambda number=number: len(application.exchanges) > number)
                application.exchanges[number].answer([framed(body)])
                assert await client.answer() == body

    run(test)


def test_an_exception_in_the_application_closes_one_connection_only() -> None:
    def script(exchange: Exchange, request: bytes) -> None:
        if request == b"bad":
            raise ZeroDivisionError
        exchange.answer([framed(request)])

    async def test() -> None:
        async with Shell(ScriptedApplication(script)) as shell:
            victim, other = await shell.client(), await shell.client()
            await victim.send(framed(b"bad") + framed(b"good"))
            assert await victim.is_closed()
            assert await other.request(b"good") == b"good"
            assert shell.application.requests == [b"bad", b"good"]

    run(test)


def test_the_application_is_notified_after_it_closes_a_connection() -> None:
    events: list[str] = []

    class Application(ScriptedApplication):
        def disconnected(self, client: object) -> None:
            events.append("disconnected")

    def script(exchange: Exchange, request: bytes) -> None:
        exchange.close("no such request")
        events.append("returned")

    async def test() -> None:
        async with Shell(Application(script)) as shell:
            client = await shell.client()
            await client.send(framed(b"what") * 3)
            assert await client.is_closed()
            await shell.until(lambda: len(events) == 2)
        assert events == ["returned", "disconnected"]

    run(test)


def close_or_echo(exchange: Exchange, request: bytes) -> None:
    """Leave requests that begin with `park` pending; close the connection at `close`."""
    if request == b"close":
        exchange.close("as the client wants it")
    elif not request.startswith(b"park"):
        exchange.answer([framed(request)])


def test_a_close_comes_after_the_earlier_responses_and_ends_reading() -> None:
    async def test() -> None:
        async with Shell(ScriptedApplication(close_or_echo)) as shell:
            client = await shell.client()
            await client.send(framed(b"first") + framed(b"close") + framed(b"after") * 3)
            assert await client.answer() == b"first"
            assert await client.is_closed()
            assert shell.application.requests == [b"first", b"close"]

    run(test)


def test_a_close_waits_for_earlier_pending_responses(tmp_path: Path) -> None:
    file = StoredFile(tmp_path / "log", b"content")

    async def test() -> None:
        async with Shell(ScriptedApplication(close_or_echo)) as shell:
            client = await shell.client()
            await client.send(framed(b"park") + framed(b"close") + framed(b"after"))
            await shell.until(lambda: len(shell.application.exchanges) == 2)
            await shell.settle()
            assert shell.application.closed == []
            parked, closing = shell.application.exchanges
            closing.answer([b"too late", file.slice()])
            parked.answer([framed(b"appended")])
            assert await client.answer() == b"appended"
            assert await client.is_closed()
            assert shell.application.requests == [b"park", b"close"]
        assert file.pins == 0

    run(test)


def test_a_late_close_drops_later_responses(
    tmp_path: Path,
) -> None:
    file = StoredFile(tmp_path / "log", b"content")

    async def test() -> None:
        async with Shell(ScriptedApplication(close_or_echo)) as shell:
            client = await shell.client()
            await client.send(framed(b"first") + framed(b"park 1") + framed(b"park 2"))
            assert await client.answer() == b"first"
            _, closing, after = shell.application.exchanges
            after.answer([b"never seen", file.slice()])
            closing.close("timed out")
            assert await client.is_closed()
            await shell.until(lambda: len(shell.application.closed) == 1)
        assert file.pins == 0

    run(test)


def test_an_invalid_frame_does_not_drop_earlier_pending_responses() -> None:
    async def test() -> None:
        async with Shell(ScriptedApplication(park), ConnectionLimits(frame_bytes=1000)) as shell:
            client = await shell.client()
            await client.send(framed(b"park") + b"\xff" * 100)
            await shell.until(lambda: len(shell.application.exchanges) == 1)
            await shell.settle()
            shell.application.exchanges[0].answer([framed(b"appended")])
            assert await client.answer() == b"appended"
            assert await client.is_closed()

    run(test)


def test_a_half_closed_client_gets_its_responses() -> None:
    big = framed(bytes(20 * MIB))

    def script(exchange: Exchange, request: bytes) -> None:
        if request == b"big":
            exchange.answer([big])

    async def test() -> None:
        async with Shell(ScriptedApplication(script)) as shell:
            client = await shell.client()
            await client.send(framed(b"big") + framed(b"park") + framed(b"not all of it")[:9])
            client.finish_sending()
            assert len(await client.answer()) == 20 * MIB
            await shell.until(lambda: len(shell.application.exchanges) == 2)
            await shell.settle()
            shell.application.exchanges[1].answer([framed(b"parked")])
            assert await client.answer() == b"parked"
            assert await client.is_closed()

    run(test)


def test_a_half_closed_connection_times_out() -> None:
    async def test() -> None:
        async with Shell(ScriptedApplication(park)) as shell:
            client = await shell.client()
            await client.send(framed(b"park"))
            await shell.until(lambda: len(shell.application.exchanges) == 1)
            client.close()
            await shell.until(lambda: bool(a_second_later(shell).application.closed))

    run(test)


def test_a_response_to_a_closed_connection_is_dropped(tmp_path: Path) -> None:
    file = StoredFile(tmp_path / "log", b"content")

    async def test() -> None:
        async with Shell(ScriptedApplication(park)) as shell:
            client = await shell.client()
            await client.send(framed(b"a") + framed(b"b"))
            await shell.until(lambda: len(shell.application.exchanges) == 2)
            shell.application.exchanges[1].answer([b"head", file.slice()])
            client.close()
            await shell.until(lambda: bool(a_second_later(shell).application.closed))
            shell.application.exchanges[0].answer([b"head", file.slice()])
        assert file.pins == 0

    run(test)


def test_a_second_response_raises() -> None:
    async def test() -> None:
        async with Shell() as shell:
            client = await shell.client()
            await client.request(b"a")
            with pytest.raises(RuntimeError, match="twice"):
                shell.application.exchanges[0].answer([b"again"])

    run(test)


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 1001])
def test_an_invalid_length_closes_its_connection_only(length: int) -> None:
    async def test() -> None:
        async with Shell(limits=ConnectionLimits(frame_bytes=1000)) as shell:
            hostile, other = await shell.client(), await shell.client()
            await hostile.send(framed(b"first") + length.to_bytes(4, "big", signed=True))
            assert await hostile.answer() == b"first"
            assert await hostile.is_closed()
            assert await other.request(b"x") == b"x"
            assert shell.resources.budget.taken == 0

    run(test)


def test_a_slice_longer_than_its_file_closes_the_connection(tmp_path: Path) -> None:
    file = StoredFile(tmp_path / "log", bytes(100_000))

    async def test() -> None:
        application = ScriptedApplication(lambda exchange, _: exchange.answer([file.slice(0, MIB)]))
        async with Shell(application) as shell:
            client = await shell.client()
            await client.send(framed(b"x"))
            await client.receive(100_000)
            assert await client.is_closed()
        assert file.pins == 0

    run(test)
