"""The Peers port on non-blocking sockets of the event loop: requests to other brokers.

`protocol/peer_channel.py` has the requests; a transport here only connects, sends and receives.
Host names are resolved by the loop's executor; everything else runs in the loop's thread, and so do
numeric addresses.
"""

import asyncio
import errno
import os
import socket
from typing import TYPE_CHECKING, Any

from sawlog.core.errors import MalformedFrame
from sawlog.core.ports import Timer
from sawlog.protocol.peer_channel import PeerChannel, TransportEvents
from sawlog.protocol.session import LENGTH_BYTES, read_length
from sawlog.server.address import Address
from sawlog.server.buffer_pool import pages

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_RESPONSE_BYTES = 512 * 1024 * 1024
KEPT_BYTES = 1 << 20
"""A connection keeps memory for responses of up to this size."""
_RECEIVES_PER_TURN = 16
"""After this many calls it is another connection's turn."""

AddressInfo = tuple[Any, Any, int, str, Any]


class ResponseMemory:
    """The memory of a connection for its responses, one after the other.

    While a replica catches up, its responses are larger than KEPT_BYTES; their memory is kept until
    the first smaller one, because new memory costs a page fault every 4 KiB.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept = memoryview(b"")

    def take(self, size: int) -> memoryview:
        """Return memory for the next response; the view of the last one is not used any more."""
        is_too_large = size <= KEPT_BYTES < len(self._kept)
        if size > len(self._kept) or is_too_large:
            # With room to grow, which takes no memory before it is used.
            self._kept = pages(min(2 * size, KEPT_BYTES) if size <= KEPT_BYTES else 2 * size)
        return self._kept[:size]


class SocketPeers:
    """The Peers port."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, timer: Timer, *, client_id: str = "sawlog-broker"
    ) -> None:
        self._loop = loop
        self._timer = timer
        self._client_id = client_id

    def connect(self, host: str, port: int) -> PeerChannel:
        address = Address(host, port)
        return PeerChannel(
            str(address),
            self._timer,
            lambda events: SocketTransport(self._loop, address, events),
            client_id=self._client_id,
        )


class SocketTransport:
    """The Transport port: tries the addresses of a name in turn, then is one connected socket.

    Invariant: after `close`, nothing is registered with the loop and `events` is not called.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, address: Address, events: TransportEvents
    ) -> None:
        self._loop = loop
        self._events = events
        self._socket: socket.socket | None = None
        self._untried: Iterator[AddressInfo] = iter(())
        self._is_closed = False
        self._unsent = bytearray()
        self._length = memoryview(bytearray(LENGTH_BYTES))
        self._memory = ResponseMemory()
        self._buffer = self._length
        self._received = 0
        self._is_in_frame = False
        self._resolving: asyncio.Future[list[AddressInfo]] | None = None
        self._resolve(address)

    # Connecting

    def _resolve(self, address: Address) -> None:
        host, port = address
        try:
            self._untried = iter(
                socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
            )
        except (OSError, UnicodeError):  # a name: only a thread can wait for its addresses
            found = self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            self._resolving = asyncio.ensure_future(found, loop=self._loop)
            self._resolving.add_done_callback(self._resolved)
        else:
            self._loop.call_soon(self._try_next, "")

    def _resolved(self, resolving: "asyncio.Future[list[AddressInfo]]") -> None:
        if self._is_closed or resolving.cancelled():
            return
        error = resolving.exception()
        if error is not None:
            self._lose(f"cannot resolve the host name: {error}")
            return
        self._untried = iter(resolving.result())
        self._try_next("the host name has no address")

    def _try_next(self, reason: str) -> None:
        """Connect to the next address; `reason` says why the one before failed."""
        if self._is_closed:
            return
        for family, kind, protocol, _, where in self._untried:
            try:
                opened = socket.socket(family, kind, protocol)
            except OSError as error:
                reason = _reason(error)
                continue
            self._socket = opened
            opened.setblocking(False)
            code = opened.connect_ex(where)
            if code in (0, errno.EINPROGRESS):
                self._loop.add_writer(opened.fileno(), self._connect_finished)
                return
            reason = os.strerror(code)
            self._close_socket()
        self._lose(reason)

    def _connect_finished(self) -> None:
        opened = self._socket
        assert opened is not None
        self._loop.remove_writer(opened.fileno())
        code = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._close_socket()
            self._try_next(os.strerror(code))
            return
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._loop.add_reader(opened.fileno(), self._readable)
        self._events.connected(self)

    # Sending

    def write(self, frame: bytes) -> None:
        if self._socket is None:
            return  # lost; the channel is told in the next turn of the loop
        if self._unsent:
            self._unsent += frame
            return
        try:
            sent = self._socket.send(frame)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._loop.call_soon(self._lose, _reason(error))
            return
        if sent < len(frame):
            self._unsent += memoryview(frame)[sent:]
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _writable(self) -> None:
        assert self._socket is not None
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(_reason(error))
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())

    # Receiving

    def _readable(self) -> None:
        try:
            for _ in range(_RECEIVES_PER_TURN):
                if self._socket is None:
                    return  # a response ended the connection
                count = self._socket.recv_into(self._buffer[self._received :])
                if count == 0:
                    self._lose("closed by the peer")
                    return
                self._received += count
                if self._received == len(self._buffer):
                    self._complete()
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(_reason(error))
        except MalformedFrame as error:
            self._lose(str(error))

    def _complete(self) -> None:
        """The buffer is full: with the length of a frame, or with the frame."""
        full, self._received = self._buffer, 0
        if self._is_in_frame:
            self._is_in_frame = False
            self._buffer = self._length
            self._events.received(self, full)
        else:
            self._buffer = self._memory.take(read_length(full, MAX_RESPONSE_BYTES))
            self._is_in_frame = True

    # The end

    def close(self) -> None:
        self._is_closed = True
        if self._resolving is not None:
            self._resolving.cancel()
        self._close_socket()

    def _lose(self, reason: str) -> None:
        if not self._is_closed:
            self.close()
            self._events.lost(self, reason)

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
