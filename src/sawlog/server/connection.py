"""One client's connection: requests in, answers out, in the same order.

A wake-up receives once, hands every whole frame to the application and sends what it answered at
once. Nothing more is read while answers do not leave, too many requests are open, or too much waits
for an answer that is not given yet. Whatever goes wrong, here or in the application, ends this
connection and no other. An end that is the answer to a request comes in its turn, after the answers
before it.
"""

import socket
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto

from sawlog.core.errors import MalformedFrame
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import DiskError, Part
from sawlog.server.connection_resources import Resources
from sawlog.server.exchange import ConnectedClient, PendingExchange
from sawlog.server.file_slices import Outgoing, memory_bytes, pin, release
from sawlog.server.frames import Cut, FrameReader
from sawlog.server.idle_timeout import Watch
from sawlog.server.response_sender import Sender

logger = EventLogger(__name__)

_LARGE_ANSWER_BYTES = 1 << 12
"""Larger answers do not wait for those to the other requests that came with theirs."""

_UNREAD_RECEIVES = 16
"""How much of what a client still sends is looked at when its connection ends in good order."""

_ANSWERS_TOGETHER = 16
"""Small ones do, up to so many: a call each would cost more than the requests themselves."""


class Reading(Enum):
    """Whether the loop tells us of incoming bytes."""

    ON = auto()
    HELD = auto()  # until answers have left
    WAITING = auto()  # until there is memory for the frame that has begun
    OFF = auto()  # for good


# Members of an Enum are slow to look up before Python 3.12: these two are asked for every time.
_READING = Reading.ON
_GO_ON = Cut.GO_ON


class Connection:
    """Invariant: `_exchanges` are, in order, the requests whose answers were not given to the
    sender; the reader is registered with the loop exactly while `_reading` is ON.
    """

    __slots__ = (
        "_descriptor",
        "_end_reason",
        "_exchanges",
        "_forget",
        "_frames",
        "_is_flush_due",
        "_leaves_by_ms",
        "_max_exchanges",
        "_reading",
        "_receive",
        "_receive_into",
        "_resources",
        "_sender",
        "_socket",
        "_watch",
        "client",
        "is_closed",
        "is_delivering",
        "is_finishing",
    )

    def __init__(
        self,
        resources: Resources,
        connected: socket.socket,
        client: ConnectedClient,
        forget: Callable[["Connection"], None],
    ) -> None:
        # For the whole life
        self.client = client
        self._resources = resources
        self._receive = resources.application.receive
        self._socket = connected
        self._descriptor = connected.fileno()
        self._receive_into = connected.recv_into
        self._forget = forget
        self._max_exchanges = resources.limits.exchanges
        self._frames = FrameReader(
            resources.frame_memory, resources.limits.frame_bytes, self._deliver, self._granted
        )
        self._sender = Sender(resources.send_tools, connected, self.flush, self.close)
        self._watch = Watch(resources.clock.monotonic_ms())
        # From request to request
        self._exchanges: deque[PendingExchange] = deque()
        self._reading = Reading.OFF
        self.is_delivering = False
        self._is_flush_due = False
        self.is_closed = False
        # Once nothing more is read
        self.is_finishing = False
        self._end_reason = ""
        self._leaves_by_ms: int | None = None

    def start(self) -> None:
        self._read_on()

    # Requests

    def _readable(self) -> None:
        self._watch.is_active = True
        if self._sender.is_busy or len(self._exchanges) >= self._max_exchanges:
            self._stop_reading(Reading.HELD)
            return
        self.is_delivering = True
        try:
            cut = self._frames.read(self._receive_into)
        except BlockingIOError:
            cut = _GO_ON
        except MalformedFrame as error:
            self._refuse(str(error))
            return
        except OSError as error:
            self.close(error.strerror or str(error))
            return
        except Exception:
            self._broke("a connection broke")
            return
        self.is_delivering = False
        if self._exchanges:
            self.flush()
        if cut is not _GO_ON:
            self._after_cut(cut)

    def _deliver(self, frame: memoryview) -> bool:
        """Hands one request on; whether another one may follow at once."""
        exchange = PendingExchange(self)
        exchanges = self._exchanges
        exchanges.append(exchange)
        try:
            self._receive(exchange, frame)
        except Exception:
            self._broke("a request broke the application")
            return False
        outgoing = exchange.outgoing
        count = len(exchanges)
        if (
            count >= self._max_exchanges
            or not count % _ANSWERS_TOGETHER
            or (outgoing and (len(outgoing) > 1 or len(outgoing[0]) > _LARGE_ANSWER_BYTES))
        ):
            self.flush()
            return self._may_read() and self._reading is _READING
        return self._reading is _READING

    def _after_cut(self, cut: Cut) -> None:
        if self.is_closed or self.is_finishing:
            self._frames.close()  # what was kept of the burst in which the application closed it
        elif cut is Cut.ENDED:
            self._ended()
        elif self._reading is _READING:
            self._stop_reading(Reading.WAITING if self._frames.is_waiting else Reading.HELD)
            self._resume()

    def _ended(self) -> None:
        """The client sends no more. It may have gone, or wait for what it has asked."""
        if self._exchanges or self._sender.is_busy:
            resources = self._resources
            self._leaves_by_ms = resources.clock.monotonic_ms() + resources.limits.stall_ms
            self.finish("closed by the client")
        else:
            self.close("closed by the client")

    def _refuse(self, reason: str) -> None:
        """Bytes that are no frame; what was asked before them is still answered."""
        self.is_delivering = False
        self._resources.logger.warning(
            "connection given up", client=self.client.host, reason=reason
        )
        self._read_no_more(reason)
        self.flush()

    def _broke(self, event: str) -> None:
        """A bug, which must not come back with every turn of the loop."""
        self._resources.logger.exception(event, client=self.client.host)
        self.close("internal error")

    def _read_on(self) -> None:
        self._reading = _READING
        self._resources.loop.add_reader(self._descriptor, self._readable)

    def _stop_reading(self, state: Reading) -> None:
        if self._reading is _READING:
            self._resources.loop.remove_reader(self._descriptor)
        self._reading = state

    def _granted(self) -> None:
        if self._reading is Reading.WAITING:
            self._read_on()

    def _resume(self) -> None:
        """Goes on reading after a hold, soon and not from inside anything else."""
        if self._reading is Reading.HELD and self._may_read():
            self._resources.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._reading is not Reading.HELD or not self._may_read():
            return
        self._read_on()
        self.is_delivering = True
        try:
            cut = self._frames.go_on()
        except MalformedFrame as error:
            self._refuse(str(error))
            return
        except Exception:
            self._broke("a connection broke")
            return
        self.is_delivering = False
        self.flush()
        if cut is not _GO_ON:
            self._after_cut(cut)

    def _may_read(self) -> bool:
        exchanges = self._exchanges
        if self._sender.is_busy or len(exchanges) >= self._max_exchanges:
            return False
        if len(exchanges) < 2:  # nothing waits for another
            return True
        waiting = sum(memory_bytes(exchange.outgoing or ()) for exchange in exchanges)
        return waiting < self._resources.limits.waiting_bytes

    # Answers

    def answer(self, exchange: PendingExchange, parts: Sequence[Part]) -> None:
        """Called by the exchange. What comes while requests are delivered leaves with them."""
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
                    "an answer cannot be read from disk", reason=str(error)
                )
                exchange.close("internal error")
                return
        self._flush_in_time()

    def close_in_turn(self, reason: str) -> None:
        """Called by an exchange that ends the connection instead of an answer."""
        if not self.is_closed:
            self._read_no_more(reason)
            self._flush_in_time()

    def _flush_in_time(self) -> None:
        if not (self.is_delivering or self._is_flush_due or self._sender.is_busy):
            self._is_flush_due = True
            self._resources.flush_soon(self)

    def flush(self) -> None:
        """Sends the answers whose turn it is, as far as the socket takes them."""
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
            self._after_hold()

    def _after_hold(self) -> None:
        if self.is_finishing:
            self._finish_when_idle()
        else:
            self._resume()

    # The end

    def check(self, now_ms: int) -> None:
        """Closes a connection that is idle, or that stalls inside a frame, for too long."""
        limits = self._resources.limits
        frames = self._frames
        sender = self._sender
        if self._reading is not _READING:
            self._watch.does_not_count(now_ms)
        elif self._watch.is_stalled(now_ms, limits, frames.completed, frames.unfinished_bytes):
            self._refuse(f"stalled inside a frame for {limits.stall_ms} ms")
            return
        if sender.made_progress:
            sender.made_progress = False
            self._watch.is_active = True
        is_awaited = self._reading is Reading.WAITING or (
            bool(self._exchanges) and not sender.is_busy
        )
        if self._watch.is_idle(now_ms, limits, is_awaited=is_awaited):
            self.close(f"idle for {limits.idle_ms} ms")
        elif is_awaited and self._leaves_by_ms is not None and now_ms >= self._leaves_by_ms:
            self.close(self._end_reason)  # has most likely gone; an answer may be long in coming

    def finish(self, reason: str = "the broker stops") -> None:
        """Reads no more; closes once the answers to what was asked have left."""
        self._read_no_more(reason)
        self._finish_when_idle()

    def _read_no_more(self, reason: str) -> None:
        self.is_finishing = True
        self._end_reason = reason
        self._stop_reading(Reading.OFF)
        self._frames.close()

    def _finish_when_idle(self) -> None:
        exchanges = self._exchanges
        is_answer_due = bool(exchanges) and not exchanges[0].is_closing
        if is_answer_due or self._sender.is_busy or self.is_closed:
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
            # Unread bytes would turn the close into a reset, which overtakes the last answer.
            for _ in range(_UNREAD_RECEIVES):
                if not self._receive_into(self._resources.frame_memory.view):
                    break
        except OSError:
            pass
        self.close(self._end_reason)

    def close(self, reason: str) -> None:
        """At once, for whatever reason; the application hears of it afterwards."""
        if self.is_closed:
            return
        self.is_closed = True
        logger.debug("connection closed", client=self.client.host, reason=reason)
        self._stop_reading(Reading.OFF)
        self._frames.close()
        for exchange in self._exchanges:
            release(exchange.outgoing or ())
        self._exchanges.clear()
        self._sender.close()
        self._forget(self)
        self._resources.loop.call_soon(self._disconnected)

    def _disconnected(self) -> None:
        try:
            self._resources.application.disconnected(self.client)
        except Exception:
            self._resources.logger.exception(
                "a lost connection broke the application", client=self.client.host
            )
