"""Loopback links between processes that can be cut, one way or both ways.

A link forwards the connections of one process to another. While a way is cut, no bytes pass it, no
connection is opened over it and no end of a connection is seen; what was sent meanwhile arrives
after `heal`, as TCP would send it again.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable

import uvloop

from sawlog.server.address import Address

HOST = "127.0.0.1"
PIECE_BYTES = 65536

Way = tuple[str, str]
"""From a process to another one, by their names."""


class Links:
    """All links of a cluster; an event loop in a thread of its own forwards the bytes."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._open: dict[Way, asyncio.Event] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def add(self, target: str, address: Address, source_of: Callable[[int, int], str]) -> Address:
        """Return an address that leads to `address` of the process `target`.

        `source_of` gets the ports of each new connection, that of the process that opened it first,
        and returns the name of that process.
        """

        async def listen() -> Address:
            async def accepted(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
                ports = (back.get_extra_info(name)[1] for name in ("peername", "sockname"))
                source = source_of(*ports)
                task = asyncio.current_task()
                assert task is not None
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                await self._connect(near, back, (source, target), address)

            server = await asyncio.start_server(accepted, HOST, 0)
            self._servers.append(server)
            return Address(HOST, server.sockets[0].getsockname()[1])

        return asyncio.run_coroutine_threadsafe(listen(), self._loop).result()

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from `source` to `target`; the other way stays open."""
        self._loop.call_soon_threadsafe(lambda: self._way((source, target)).clear())

    def cut_both(self, one: str, other: str) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def heal(self) -> None:
        """Open all ways."""

        def open_all() -> None:
            for way in self._open.values():
                way.set()

        self._loop.call_soon_threadsafe(open_all)

    def close(self) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)  # transports are closed in the next turn of the loop

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _way(self, way: Way) -> asyncio.Event:
        if way not in self._open:
            self._open[way] = asyncio.Event()
            self._open[way].set()
        return self._open[way]

    async def _connect(
        self,
        near: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        way: Way,
        address: Address,
    ) -> None:
        there, here = self._way(way), self._way((way[1], way[0]))
        try:
            await there.wait()
            far, forth = await asyncio.open_connection(*address)
        except OSError:
            await here.wait()
            back.close()
            return
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(_pump(near, forth, there))
                pumps.create_task(_pump(far, back, here))
        finally:
            back.close()
            forth.close()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: asyncio.Event
) -> None:
    """Forward bytes and the end of the connection, while the way is open."""
    with contextlib.suppress(OSError, RuntimeError):  # uvloop's error for a closed transport
        while True:
            try:
                data = await reader.read(PIECE_BYTES)
            except OSError:
                data = b""
            await way.wait()
            if not data:
                break
            writer.write(data)
            await writer.drain()
    writer.close()
