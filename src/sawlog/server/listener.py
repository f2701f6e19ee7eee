"""Accepts connections, keeps them, looks after them now and then, and ends them in good order.

Too many connections, or no descriptors for more, are answered by refusing or by accepting later;
they never stop what is there already.
"""

import errno
import socket
from typing import TYPE_CHECKING

from sawlog.server.address import Address, bound_address
from sawlog.server.connection import Connection
from sawlog.server.connection_resources import Resources
from sawlog.server.exchange import ConnectedClient

if TYPE_CHECKING:
    import asyncio

    from sawlog.core.ports import TimerHandle

_ACCEPTS_PER_TURN = 32
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_PAUSE_MS = 250
_MAPPED_IPV4 = "::ffff:"


class Listener:
    """One address that clients connect to, with the connections that came in through it.

    `sockets` listen already: clients that connect wait in the backlog until `open`.
    """

    def __init__(
        self, resources: Resources, address: Address, sockets: list[socket.socket]
    ) -> None:
        self._resources = resources
        self._sockets = sockets
        self.address = bound_address(address, sockets)
        self._connections: dict[Connection, None] = {}
        self._is_accepting = False
        self._sweeping: TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    @property
    def connections(self) -> int:
        return len(self._connections)

    def open(self) -> None:
        """Begins to accept."""
        self._accept_on()
        self._sweep_later()

    # Connections that come

    def _accept_on(self) -> None:
        self._is_accepting = True
        for listening in self._sockets:
            self._resources.loop.add_reader(listening.fileno(), self._accept, listening)

    def _accept_no_more(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            for listening in self._sockets:
                self._resources.loop.remove_reader(listening.fileno())

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                connected, where = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._accept_later(error.strerror or str(error))
                    return
                continue  # this one ended before it began
            self._welcome(connected, where[0].removeprefix(_MAPPED_IPV4), where[1])

    def _accept_later(self, reason: str) -> None:
        self._resources.logger.warning("cannot accept connections for now", reason=reason)
        self._accept_no_more()
        self._resources.timer.after(_EXHAUSTED_PAUSE_MS, self._accept_again)

    def _accept_again(self) -> None:
        if self._sockets and not self._is_accepting:
            self._accept_on()

    def _welcome(self, connected: socket.socket, host: str, port: int) -> None:
        resources = self._resources
        refusal = resources.quota.acquire(host)
        if refusal is not None:
            connected.close()
            resources.logger.warning("connection refused", client=host, reason=refusal)
            return
        client = ConnectedClient(host, port)
        connection = Connection(resources, connected, client, self._forget)
        self._connections[connection] = None
        try:
            connected.setblocking(False)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if resources.limits.send_buffer_bytes >= 0:
                connected.setsockopt(
                    socket.SOL_SOCKET, socket.SO_SNDBUF, resources.limits.send_buffer_bytes
                )
            resources.application.connected(client)
        except OSError as error:
            connection.close(error.strerror or str(error))
        except Exception:
            resources.logger.exception("a new connection broke the application", client=host)
            connection.close("internal error")
        else:
            connection.start()

    def _forget(self, connection: Connection) -> None:
        self._resources.quota.release(connection.client.host)
        del self._connections[connection]
        if self._emptied is not None and not self._connections and not self._emptied.done():
            self._emptied.set_result(None)

    # Connections that are there

    def _sweep_later(self) -> None:
        limits = self._resources.limits
        shortest_ms = min(limits.stall_ms, limits.idle_ms if limits.idle_ms >= 0 else 1 << 31)
        interval_ms = max(50, min(shortest_ms // 4, 5_000))
        self._sweeping = self._resources.timer.after(interval_ms, self.sweep)

    def sweep(self) -> None:
        """Closes the idle and the stalled."""
        now_ms = self._resources.clock.monotonic_ms()
        for connection in tuple(self._connections):
            connection.check(now_ms)
        self._sweep_later()

    # The end

    def quiesce(self) -> None:
        """Accepts and reads no more; connections close as the answers under way have left."""
        self._accept_no_more()
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()
        for connection in tuple(self._connections):
            connection.finish()

    async def drain(self, grace_ms: int) -> None:
        """Waits until all connections are gone, but no longer than that; then closes the rest."""
        self.quiesce()
        if self._connections:
            emptied = self._emptied = self._resources.loop.create_future()
            overdue = self._resources.timer.after(grace_ms, self.close)
            await emptied
            overdue.cancel()
        self.close()

    def close(self) -> None:
        """Ends everything now."""
        self._accept_no_more()
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for connection in tuple(self._connections):
            connection.close("the broker stops")
