"""The port through which a broker sends requests to other brokers.

`server/` implements it on sockets, `simulation/` on the simulated network. A broker keeps one
connection per peer for Fetch and another one for everything else, so that a long fetch delays
nothing.
"""

from collections.abc import Callable
from typing import Protocol

from sawlog.protocol.schema import Message


class PeerError(Exception):
    """No response: not connected, disconnected, timed out, or the peer cannot serve the request.

    The request may have taken effect at the peer all the same.
    """


OnResponse = Callable[[Message | PeerError], None]


class PeerConnection(Protocol):
    """One connection to one address. It is opened by the first request, and by the first request
    after it was lost; requests that were pending then fail."""

    def send(self, request: Message, done: OnResponse, *, timeout_ms: int) -> None:
        """Send a request in the highest version that both sides know.

        `done` is called exactly once, later, never from inside this call. Responses come in the
        order of the requests. Views of records in a response are valid only during `done`.
        """
        ...

    def close(self) -> None:
        """Disconnect; pending requests fail with PeerError, later ones too."""
        ...


class Peers(Protocol):
    def connect(self, host: str, port: int) -> PeerConnection:
        """Return a connection of its own, which is not opened yet. Never fails."""
        ...
