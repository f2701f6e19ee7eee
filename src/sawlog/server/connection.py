"""One client's connection: receives requests and sends responses in the same order.

A readable socket is read once; every complete frame is passed to the application, and its responses
are sent. Reads pause while the socket does not accept responses, too many requests are open, or too
many finished responses wait behind a pending one. An error in the connection or in the application
closes this connection only. A close that replaces a response comes after the earlier responses.
"""

import socket
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto

from sawlog.core.errors import MalformedFrame
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import DiskError, Part
from sawlog.server.connection_resources import ConnectionResources
from sawlog.server.exchange import ConnectedClient, PendingExchange
from sawlog.server.file_slices import Outgoing, memory_bytes, pin, release
from sawlog.server.frames import FrameReader, ReadResult
from sawlog.server.idle_timeout import IdleTimeout
from sawlog.server.response_sender import ResponseSender

logger = EventLogger(__name__)

_LARGE_RESPONSE_BYTES = 1 << 12
"""Larger responses are sent at once, without waiting for the other requests of the same read."""

_RESPONSES_PER_SEND = 16
"""Small responses are sent together, up to this many: one call each would cost too much."""

_UNREAD_RECEIVES = 16
"""How often unread bytes are discarded before a connection is closed."""


class Reading(Enum):
    """Whether the socket is read."""

    ON = auto()
    PAUSED = auto()  # until responses are sent
    WAITING = auto()  # for memory for the current frame
    OFF = auto()  # permanently


# Enum members are slow to look up before Python 3.12; these two are used for every request.
_READING = Reading.ON
_CONTINUE = ReadResult.CONTINUE


class Connection:
    """Invariant: `_exchanges` has, in order, the requests whose responses were not passed to the
    sender. The reader is registered with the loop exactly while `_reading` is ON.
    """

    __slots__ = (
        "_deadline_ms",
        "_descriptor",
        "_end_reason",
        "_exchanges",
        "_frames",
        "_idle",
        "_is_flush_due",
        "_max_exchanges",
        "_on_close",
        "_reading",
        "_receive",
        "_receive_into",
        "_resources",
        "_sender",
        "_socket",
        "client",
        "is_closed",
        "is_delivering",
        "is_finishing",
    )

    def __init__(
        self,
        resources: ConnectionResources,
        connected: socket.socket,
        client: ConnectedClient,
        on_close: Callable[["Connection"], None],
    ) -> None:
        # Constant
        self.client = client
        self._resources = resources
        self._receive = resources.application.receive
        self._socket = connected
        self._descriptor = connected.fileno()
        self._receive_into = connected.recv_into
        self._on_close = on_close
        self._max_exchanges = resources.limits.exchanges
        self._frames = FrameReader(
            resources.frame_memory, resources.limits.frame_bytes, self._deliver, self._granted
        )
        self._sender = ResponseSender(resources.send_resources, connected, self.flush, self.close)
        self._idle = IdleTimeout(resources.clock.monotonic_ms())
        # Changes with requests
        self._exchanges: deque[PendingExchange] = deque()
        self._reading = Reading.OFF
        self.is_delivering = False
        self._is_flush_due = False
        self.is_closed = False
        # Set when reading ends
        self.is_finishing = False
        self._end_reason = ""
        self._deadline_ms: int | None = None

    def start(self) -> None:
        self._start_reading()

    # Requests

    def _readable(self) -> None:
        self._idle.is_active = True
        if self._sender.is_busy or len(self._exchanges) >= self._max_exchanges:
            self._pause_reading(Reading.PAUSED)
            return
        self.is_delivering = True
        try:
            result = self._frames.read(self._receive_into)
        except BlockingIOError:
            result = _CONTINUE
        except MalformedFrame as error:
            self._reject(str(error))
            return
        except OSError as error:
            self.close(error.strerror or str(error))
            return
        except Exception:
            self._fail("exception while reading from a connection")
            return
        self.is_delivering = False
        if self._exchanges:
            self.flush()
        if result is not _CONTINUE:
            self._after_read(result)

    def _deliver(self, frame: memoryview) -> bool:
        """Pass one request to the application; return whether another one may follow at once."""
        exchange = PendingExchange(self)
        exchanges = self._exchanges
        exchanges.append(exchange)
        try:
            self._receive(exchange, frame)
        except Exception:
            self._fail("exception in the application while it handled a request")
            return False
        outgoing = exchange.outgoing
        count = len(exchanges)
        if (
            count >= self._max_exchanges
            or not count % _RESPONSES_PER_SEND
            or (outgoing and (len(outgoing) > 1 or len(outgoing[0]) > _LARGE_RESPONSE_BYTES))
        ):
            self.flush()
            return self._may_read() and self._reading is _READING
        return self._reading is _READING

    def _after_read(self, result: ReadResult) -> None:
        if self.is_closed or self.is_finishing:
            self._frames.close()  # the application closed the connection during this read
        elif result is ReadResult.END:
            self._end_of_stream()
        elif self._reading is _READING:
            self._pause_reading(Reading.WAITING if self._frames.is_waiting else Reading.PAUSED)
            self._resume()

    def _end_of_stream(self) -> None:
        """The client shut down its sending side. It may be gone, or wait for responses."""
        if self._exchanges or self._sender.is_busy:
            resources = self._resources
            self._deadline_ms = resources.clock.monotonic_ms() + resources.limits.stall_ms
            self.finish("closed by the client")
        else:
            self.close("closed by the client")

    def _reject(self, reason: str) -> None:
        """Stop reading after an invalid frame; earlier requests are still answered."""
        self.is_delivering = False
        self._resources.logger.warning(
            "closing the connection: invalid request", client=self.client.host, reason=reason
        )
        self._end_reading(reason)
        self.flush()

    def _fail(self, event: str) -> None:
        """Close after a bug, so that it does not repeat with every turn of the loop."""
        self._resources.logger.exception(event, client=self.client.host)
        self.close("internal error")

    def _start_reading(self) -> None:
        self._reading = _READING
        self._resources.loop.add_reader(self._descriptor, self._readable)

    def _pause_reading(self, state: Reading) -> None:
        if self._reading is _READING:
            self._resources.loop.remove_reader(self._descriptor)
        self._reading = state

    def _granted(self) -> None:
        if self._reading is Reading.WAITING:
            self._start_reading()

    def _resume(self) -> None:
        """Resume reading in the next turn of the loop, if nothing prevents it."""
        if self._reading is Reading.PAUSED and self._may_read():
            self._resources.loop.call_soon(self._read_rest)

    def _read_rest(self) -> None:
        if self._reading is not Reading.PAUSED or not self._may_read():
            return
        self._start_reading()
        self.is_delivering = True
        try:
            result = self._frames.read_rest()
        except MalformedFrame as error:
            self._reject(str(error))
            return
        except Exception:
            self._fail("exception while reading from a connection")
            return
        self.is_delivering = False
        self.flush()
        if result is not _CONTINUE:
            self._after_read(result)

    def _may_read(self) -> bool:
        exchanges = self._exchanges
        if self._sender.is_busy or len(exchanges) >= self._max_exchanges:
            return False
        if len(exchanges) < 2:  # no response waits for another
            return True
        waiting = sum(memory_bytes(exchange.outgoing or ()) for exchange in exchanges)
        return waiting < self._resources.limits.waiting_bytes

    # Responses

    def answer(self, exchange: PendingExchange, parts: Sequence[Part]) -> None:
        """Called by the exchange. Responses given during a read are sent at its end."""
        if self.is_closed:
            exchange.outgoing = ()
            return
        if len(parts) == 1 and type(first := parts[0]) is bytes:
            exchange.outgoing = (first,)
        else:
            try:
                exchange.outgoing = pin(parts)
            except DiskError as error:
                self._resources.logger.warning(
                    "cannot open the log segment of a response", reason=str(error)
                )
                exchange.close("internal error")
                return
        self._flush_later()

    def close_in_turn(self, reason: str) -> None:
        """Called by an exchange that closes the connection instead of a response."""
        if not self.is_closed:
            self._end_reading(reason)
            self._flush_later()

    def _flush_later(self) -> None:
        if not (self.is_delivering or self._is_flush_due or self._sender.is_busy):
            self._is_flush_due = True
            self._resources.flush_soon(self)

    def flush(self) -> None:
        """Send the responses whose turn it is, as far as the socket accepts them."""
        self._is_flush_due = False
        sender = self._sender
        if sender.is_busy:
            return
        exchanges = self._exchanges
        answered: list[Outgoing] = []
        while exchanges and (outgoing := exchanges[0].outgoing) is not None:
            exchanges.popleft()
            answered += outgoing
        if answered:
            sender.send(answered)
        if self._reading is not _READING:
            self._after_flush()

    def _after_flush(self) -> None:
        if self.is_finishing:
            self._close_when_sent()
        else:
            self._resume()

    # The end

    def check(self, now_ms: int) -> None:
        """Close the connection if it is idle, or stalls inside a frame, for too long."""
        limits = self._resources.limits
        frames = self._frames
        sender = self._sender
        if self._reading is not _READING:
            self._idle.pause(now_ms)
        elif self._idle.is_stalled(now_ms, limits, frames.completed, frames.unfinished_bytes):
            self._reject(f"a frame made too little progress in {limits.stall_ms} ms")
            return
        if sender.made_progress:
            sender.made_progress = False
            self._idle.is_active = True
        is_our_turn = self._reading is Reading.WAITING or (
            bool(self._exchanges) and not sender.is_busy
        )
        if self._idle.is_idle(now_ms, limits, is_our_turn=is_our_turn):
            self.close(f"idle for {limits.idle_ms} ms")
        elif is_our_turn and self._deadline_ms is not None and now_ms >= self._deadline_ms:
            self.close(self._end_reason)  # the client is probably gone

    def finish(self, reason: str = "the broker is stopping") -> None:
        """Stop reading, and close when the responses to all requests are sent."""
        self._end_reading(reason)
        self._close_when_sent()

    def _end_reading(self, reason: str) -> None:
        self.is_finishing = True
        self._end_reason = reason
        self._pause_reading(Reading.OFF)
        self._frames.close()

    def _close_when_sent(self) -> None:
        exchanges = self._exchanges
        is_answer_due = bool(exchanges) and not exchanges[0].is_closing
        if is_answer_due or self._sender.is_busy or self.is_closed:
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
            # With unread bytes the close would become a reset, which overtakes the last response.
            for _ in range(_UNREAD_RECEIVES):
                if not self._receive_into(self._resources.frame_memory.view):
                    break
        except OSError:
            pass
        self.close(self._end_reason)

    def close(self, reason: str) -> None:
        """Close at once; the application is notified in the next turn of the loop."""
        if self.is_closed:
            return
        self.is_closed = True
        logger.debug("connection closed", client=self.client.host, reason=reason)
        self._pause_reading(Reading.OFF)
        self._frames.close()
        for exchange in self._exchanges:
            release(exchange.outgoing or ())
        self._exchanges.clear()
        self._sender.close()
        self._on_close(self)
        self._resources.loop.call_soon(self._disconnected)

    def _disconnected(self) -> None:
        try:
            self._resources.application.disconnected(self.client)
        except Exception:
            self._resources.logger.exception(
                "exception in the application after a disconnection", client=self.client.host
            )
