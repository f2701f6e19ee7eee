"""Accepts connections, checks them for idleness, and closes them gracefully.

Beyond the connection limit new connections are closed; without free descriptors accepting pauses.
Neither affects existing connections.
"""

import errno
import socket
from typing import TYPE_CHECKING

from sawlog.server.address import Address, bound_address
from sawlog.server.connection import Connection
from sawlog.server.connection_resources import ConnectionResources
from sawlog.server.exchange import ConnectedClient

if TYPE_CHECKING:
    import asyncio

    from sawlog.core.ports import TimerHandle

_ACCEPTS_PER_TURN = 32
_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_RESOURCES_PAUSE_MS = 250
_MAPPED_IPV4 = "::ffff:"


class Listener:
    """One address that clients connect to, and its connections.

    `sockets` are listening: connections wait in the backlog until `open`.
    """

    def __init__(
        self, resources: ConnectionResources, address: Address, sockets: list[socket.socket]
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
        """Start to accept connections."""
        self._start_accepting()
        self._sweep_later()

    # New connections

    def _start_accepting(self) -> None:
        self._is_accepting = True
        for listening in self._sockets:
            self._resources.loop.add_reader(listening.fileno(), self._accept, listening)

    def _stop_accepting(self) -> None:
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
                if error.errno in _NO_RESOURCES:
                    self._accept_later(error.strerror or str(error))
                    return
                continue  # the client is gone already
            self._open_connection(connected, where[0].removeprefix(_MAPPED_IPV4), where[1])

    def _accept_later(self, reason: str) -> None:
        self._resources.logger.warning("cannot accept connections; retrying", reason=reason)
        self._stop_accepting()
        self._resources.timer.after(_NO_RESOURCES_PAUSE_MS, self._accept_again)

    def _accept_again(self) -> None:
        if self._sockets and not self._is_accepting:
            self._start_accepting()

    def _open_connection(self, connected: socket.socket, host: str, port: int) -> None:
        resources = self._resources
        rejection = resources.quota.acquire(host)
        if rejection is not None:
            connected.close()
            resources.logger.warning("connection rejected", client=host, reason=rejection)
            return
        client = ConnectedClient(host, port)
        connection = Connection(resources, connected, client, self._connection_closed)
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
            resources.logger.exception(
                "exception in the application with a new connection", client=host
            )
            connection.close("internal error")
        else:
            connection.start()

    def _connection_closed(self, connection: Connection) -> None:
        self._resources.quota.release(connection.client.host)
        del self._connections[connection]
        if self._emptied is not None and not self._connections and not self._emptied.done():
            self._emptied.set_result(None)

    # Open connections

    def _sweep_later(self) -> None:
        limits = self._resources.limits
        shortest_ms = min(limits.stall_ms, limits.idle_ms if limits.idle_ms >= 0 else 1 << 31)
        interval_ms = max(50, min(shortest_ms // 4, 5_000))
        self._sweeping = self._resources.timer.after(interval_ms, self.sweep)

    def sweep(self) -> None:
        """Close idle and stalled connections."""
        now_ms = self._resources.clock.monotonic_ms()
        for connection in tuple(self._connections):
            connection.check(now_ms)
        self._sweep_later()

    # Shutdown

    def quiesce(self) -> None:
        """Stop accepting and reading; connections close when their responses are sent."""
        self._stop_accepting()
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()
        for connection in tuple(self._connections):
            connection.finish()

    async def drain(self, grace_ms: int) -> None:
        """Wait up to `grace_ms` until all connections are closed; then close the rest."""
        self.quiesce()
        if self._connections:
            emptied = self._emptied = self._resources.loop.create_future()
            overdue = self._resources.timer.after(grace_ms, self.close)
            await emptied
            overdue.cancel()
        self.close()

    def close(self) -> None:
        """Close everything at once."""
        self._stop_accepting()
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for connection in tuple(self._connections):
            connection.close("the broker is stopping")
