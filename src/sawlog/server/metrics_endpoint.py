"""`GET /metrics` for Prometheus: an HTTP endpoint with one request per connection.

Time, memory and connections are bounded. It has a listener of its own, so that metrics stay
available when too many clients connect to the broker.
"""

import asyncio
from typing import TYPE_CHECKING, cast

from sawlog.core.event_logger import EventLogger
from sawlog.core.metrics import CONTENT_TYPE, Registry
from sawlog.core.ports import Timer
from sawlog.server.address import Address, bound_address, listen

if TYPE_CHECKING:
    import socket

logger = EventLogger(__name__)

_REQUEST_BYTES = 8192
_CONNECTION_MS = 5_000
_CONNECTIONS = 16
_PLAIN_TEXT = "text/plain; charset=utf-8"


class MetricsEndpoint:
    def __init__(self, registry: Registry, timer: Timer, address: Address) -> None:
        self._registry = registry
        self._timer = timer
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self.scrapes: set[_Scrape] = set()
        self.address = address

    def bind(self) -> None:
        """Bind the address, so that its port is known; OSError if that fails."""
        self._sockets = listen(self.address, _CONNECTIONS)
        self.address = bound_address(self.address, self._sockets)

    async def open(self) -> None:
        """Start to serve on the bound address."""
        if not self._sockets:
            self.bind()
        loop = asyncio.get_running_loop()
        while self._sockets:
            listening = self._sockets.pop()
            server = await loop.create_server(lambda: _Scrape(self, self._timer), sock=listening)
            self._servers.append(server)

    def close(self) -> None:
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()
        for server in self._servers:
            server.close()
        self._servers.clear()
        for scrape in tuple(self.scrapes):
            scrape.abort()

    def respond(self, request: bytes) -> bytes:
        """Return the response to the head of a request."""
        words = request.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response("400 Bad Request", "not an HTTP/1 request\n")
        method, target, _ = words
        if target.split(b"?", 1)[0] != b"/metrics":
            return _response("404 Not Found", "metrics are at /metrics\n")
        if method not in (b"GET", b"HEAD"):
            return _response(
                "405 Method Not Allowed",
                "only GET and HEAD are supported\n",
                "Allow: GET, HEAD\r\n",
            )
        try:
            text = self._registry.render()
        except Exception:
            logger.exception("cannot render the metrics")
            return _response(
                "500 Internal Server Error", "cannot render the metrics; see the broker's log\n"
            )
        response = _response("200 OK", text, content_type=CONTENT_TYPE)
        return response if method == b"GET" else response.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


class _Scrape(asyncio.Protocol):
    """One connection: receives the head of a request and sends a response, with a timeout."""

    def __init__(self, endpoint: MetricsEndpoint, timer: Timer) -> None:
        self._endpoint = endpoint
        self._overdue = timer.after(_CONNECTION_MS, self.abort)
        self._request = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._endpoint.scrapes.add(self)
        if len(self._endpoint.scrapes) > _CONNECTIONS:
            self.abort()

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._request += data
        if b"\r\n\r\n" in self._request:
            transport.write(self._endpoint.respond(bytes(self._request)))
        elif len(self._request) > _REQUEST_BYTES:
            transport.write(
                _response("431 Request Header Fields Too Large", "the request is too long\n")
            )
        else:
            return
        self._request.clear()
        transport.close()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._overdue.cancel()
        self._endpoint.scrapes.discard(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _response(
    status: str, body: str, more_headers: str = "", content_type: str = _PLAIN_TEXT
) -> bytes:
    content = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\n"
        f"Content-Type: {content_type}\r\n"
        f"Content-Length: {len(content)}\r\n"
        f"{more_headers}"
        "X-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + content
