"""A listener with a scripted application, raw clients, and a manual clock."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import uvloop

from sawlog.core.ports import Client, Exchange, FileSlice
from sawlog.server.address import Address, listen
from sawlog.server.connection_limits import ConnectionLimits
from sawlog.server.connection_resources import ConnectionResources
from sawlog.server.disk_threads import DiskThreads
from sawlog.server.file_slices import PageCache
from sawlog.server.listener import Listener
from sawlog.server.response_sender import SendResources

DEADLINE_SECONDS = 30.0
"""A test that hangs fails after this time."""


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class ManualClock:
    """A Clock and Timer whose time passes only by `advance`, which runs due actions."""

    def __init__(self) -> None:
        self._now_ms = 1_000_000
        self._due: list[tuple[int, Callable[[], None]]] = []

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def after(self, delay_ms: int, action: Callable[[], None]) -> "ManualHandle":
        entry = (self._now_ms + delay_ms, action)
        self._due.append(entry)
        return ManualHandle(self._due, entry)

    def advance(self, milliseconds: int) -> None:
        end_ms = self._now_ms + milliseconds
        while ready := sorted(
            (entry for entry in self._due if entry[0] <= end_ms), key=lambda entry: entry[0]
        ):
            self._due.remove(ready[0])
            self._now_ms = max(self._now_ms, ready[0][0])
            ready[0][1]()
        self._now_ms = end_ms


class ManualHandle:
    def __init__(self, due: list[Any], entry: Any) -> None:
        self._due = due
        self._entry = entry

    def cancel(self) -> None:
        if self._entry in self._due:
            self._due.remove(self._entry)


Script = Callable[[Exchange, bytes], None]


def echo(exchange: Exchange, request: bytes) -> None:
    exchange.answer([framed(request)])


class ScriptedApplication:
    """Runs the test's script for each request, and records all calls."""

    def __init__(self, script: Script = echo) -> None:
        self.script = script
        self.requests: list[bytes] = []
        self.exchanges: list[Exchange] = []
        self.clients: list[Client] = []
        self.closed: list[Client] = []

    def connected(self, client: Client) -> None:
        self.clients.append(client)

    def receive(self, exchange: Exchange, frame: memoryview) -> None:
        assert not frame.readonly
        request = bytes(frame)
        frame[:] = bytes(len(frame))  # a view that is kept too long shows zeros
        self.requests.append(request)
        self.exchanges.append(exchange)
        self.script(exchange, request)

    def disconnected(self, client: Client) -> None:
        self.closed.append(client)


class StoredFile:
    """A file that can be pinned, as those of the real disk."""

    def __init__(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        self.descriptor = os.open(path, os.O_RDWR)
        os.fsync(self.descriptor)
        self.size = len(content)
        self.pins = 0

    def __del__(self) -> None:
        os.close(self.descriptor)

    def pin(self) -> int:
        self.pins += 1
        return self.descriptor

    def unpin(self) -> None:
        self.pins -= 1
        assert self.pins >= 0

    def slice(self, position: int = 0, length: int | None = None) -> FileSlice:
        count = self.size - position if length is None else length
        return FileSlice(self, position, count)  # type: ignore[arg-type]

    def make_cold(self) -> None:
        os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


class RawClient:
    """A client that sends and receives raw bytes."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def request(self, body: bytes) -> bytes:
        await self.send(framed(body))
        return await self.answer()

    async def answer(self) -> bytes:
        """Return the next frame; ConnectionError at the end of the stream."""
        length = int.from_bytes(await self.receive(4), "big")
        return await self.receive(length)

    async def receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = await self._loop.sock_recv(self._socket, count - len(data))
            if not piece:
                raise ConnectionError(f"closed after {len(data)} of {count} bytes")
            data += piece
        return bytes(data)

    async def is_closed(self) -> bool:
        """Wait for the end of the stream; False if bytes come before it."""
        try:
            return not await self._loop.sock_recv(self._socket, 1)
        except ConnectionError:
            return True

    def finish_sending(self) -> None:
        """Shut down the sending side only."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


class Shell:
    """A listener on a free loopback port, with its resources."""

    def __init__(
        self,
        application: ScriptedApplication | None = None,
        limits: ConnectionLimits | None = None,
        *,
        page_cache: PageCache | None = None,
        transfer: Callable[[int, int, int, int], int] = os.sendfile,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.application = application or ScriptedApplication()
        self.clock = ManualClock()
        self.threads = DiskThreads(self.loop.call_soon_threadsafe, limit=2)
        self.resources = ConnectionResources(
            self.loop,
            self.application,
            limits or ConnectionLimits(),
            clock=self.clock,
            timer=self.clock,
            send_resources=SendResources(
                self.loop, self.threads, page_cache or PageCache(), transfer
            ),
        )
        self.listener = self.listening_on(Address("127.0.0.1", 0))
        self._clients: list[RawClient] = []

    def listening_on(self, address: Address) -> Listener:
        limits = self.resources.limits
        sockets = listen(address, limits.backlog, limits.receive_buffer_bytes)
        return Listener(self.resources, address, sockets)

    async def __aenter__(self) -> Self:
        self.listener.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.listener.close()
        for client in self._clients:
            client.close()
        await self.settle()
        self.threads.stop()

    async def client(self, receive_buffer_bytes: int | None = None) -> RawClient:
        connecting = socket.socket()
        connecting.setblocking(False)
        if receive_buffer_bytes is not None:
            connecting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        client = RawClient(connecting)
        self._clients.append(client)
        await self.loop.sock_connect(connecting, tuple(self.listener.address))
        return client

    async def until(self, condition: Callable[[], bool]) -> None:
        """Run the loop until the condition holds."""
        while not condition():
            await asyncio.sleep(0)

    async def settle(self) -> None:
        """Run the loop until pending callbacks are done."""
        for _ in range(10):
            await asyncio.sleep(0)


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test's coroutine on a new uvloop event loop."""

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await test()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())
