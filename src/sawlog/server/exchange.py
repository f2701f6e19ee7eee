"""One request on a connection, from its arrival until its answer leaves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sawlog.core.ports import Part

if TYPE_CHECKING:
    from sawlog.server.connection import Connection
    from sawlog.server.file_slices import Outgoing


class ConnectedClient:
    """Who is at the other end; `software` is what the client says of itself (KIP-511)."""

    __slots__ = ("host", "port", "software")

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.software = ("unknown", "unknown")


class PendingExchange:
    """The Exchange port. `outgoing` is None until the answer is given; one that `is_closing` ends
    the connection when its turn comes.
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
            raise RuntimeError("a request can be answered only once")
        if self.is_closing:
            return
        connection = self._connection
        if connection.is_delivering and len(parts) == 1 and type(first := parts[0]) is bytes:
            self.outgoing = (first,)  # the usual case; it leaves at the end of the burst
        else:
            connection.answer(self, parts)

    def close(self, reason: str) -> None:
        if self.outgoing is None:
            self.is_closing = True
            self._connection.close_in_turn(reason)
        else:
            self._connection.close(reason)
