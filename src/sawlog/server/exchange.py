"""The boundary between the server and the broker: requests go in, responses come back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sawlog.core.ports import Client, Exchange, Part

if TYPE_CHECKING:
    from sawlog.server.connection import Connection
    from sawlog.server.file_slices import Outgoing


class Application(Protocol):
    """The broker as the server sees it.

    All calls come from the loop's thread and are never nested: a connection that closes while the
    application runs is reported afterwards.
    """

    def connected(self, client: Client) -> None: ...

    def receive(self, exchange: Exchange, frame: memoryview) -> None:
        """Take one request, without its length prefix, in writable memory that is reused when this
        returns.

        The application calls `exchange.answer` exactly once, now or later, or `exchange.close`.
        """
        ...

    def disconnected(self, client: Client) -> None:
        """The connection is closed; responses to its open exchanges are dropped from now on."""
        ...


class ConnectedClient:
    """The Client port: the peer's address."""

    __slots__ = ("host", "port")

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port


class PendingExchange:
    """The Exchange port: one request from its arrival until its response is sent.

    `outgoing` is None until the response is given. An exchange that `is_closing` closes the
    connection when its turn comes.
    """

    __slots__ = ("_connection", "is_closing", "outgoing")

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self.is_closing = False
        self.outgoing: Sequence[Outgoing] | None = None

    @property
    def client(self) -> ConnectedClient:
        return self._connection.client

    def answer(self, parts: Sequence[Part]) -> None:
        if self.outgoing is not None:
            raise RuntimeError("a request was answered twice")
        if self.is_closing:
            return
        connection = self._connection
        if connection.is_delivering and len(parts) == 1 and type(first := parts[0]) is bytes:
            self.outgoing = (first,)  # the usual case; sent after this read
        else:
            connection.answer(self, parts)

    def close(self, reason: str) -> None:
        if self.outgoing is None:
            self.is_closing = True
            self._connection.close_in_turn(reason)
        else:
            self._connection.close(reason)
