"""One simulated TCP connection: two ends, and a pipe in each direction that keeps its order.

A packet that arrives at an end which is gone is answered with a reset, as a kernel does it. The
memory of a frame is overwritten after its use, so that a view that was kept is noticed.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from sawlog.core.ports import Client, Exchange, FileSlice, Part
from sawlog.protocol.session import LENGTH_BYTES
from sawlog.simulation.schedule import TimerScope

if TYPE_CHECKING:
    from sawlog.protocol.peer_channel import TransportEvents
    from sawlog.simulation.simulated_network import SimulatedNetwork

GIVE_UP_MS = 60_000
"""How long a sender repeats a packet that meets a cut; Linux takes minutes."""


class Application(Protocol):
    """The broker as the server feeds it."""

    def connected(self, client: Client) -> None: ...

    def receive(self, exchange: Exchange, frame: memoryview) -> None: ...

    def disconnected(self, client: Client) -> None: ...


class ConnectedHost:
    """The Client port: the host of a connection, and a port of its own."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port


class Pipe:
    """One direction of a link. Invariant: packets arrive in the order they were put."""

    def __init__(self, link: "Link", source: str, target: str) -> None:
        self._link = link
        self.source = source
        self.target = target
        self._packets: deque[Callable[[], None]] = deque()
        self._is_giving_up = False

    def put(self, packet: Callable[[], None]) -> None:
        self._link.network.draw_faults(self._link)
        self._packets.append(packet)
        self._arrive_later(self._link.network.delay_ms())

    def resume(self) -> None:
        for _ in self._packets:
            self._arrive_later(self._link.network.delay_ms())

    def _arrive_later(self, delay_ms: int) -> None:
        self._link.network.schedule.after(delay_ms, self._arrive)

    def _arrive(self) -> None:
        """The oldest packet arrives, whichever of them is due."""
        if not self._packets:
            return
        network = self._link.network
        clogged_ms = self._link.clogged_until_ms - network.schedule.monotonic_ms()
        if clogged_ms > 0:
            self._arrive_later(clogged_ms)
            return
        if network.is_cut(self.source, self.target) or network.is_silent(self.target):
            if not self._is_giving_up:
                self._is_giving_up = True
                network.schedule.after(GIVE_UP_MS, partial(self._give_up, self._packets[0]))
            return
        self._packets.popleft()()

    def _give_up(self, oldest: Callable[[], None]) -> None:
        self._is_giving_up = False
        if self._packets and self._packets[0] is oldest:
            self._packets.clear()
            self._link.lose_at(self.source, "no acknowledgement from the peer")


class Link:
    """A connection from its first packet until both ends are gone."""

    def __init__(
        self, network: "SimulatedNetwork", client: "SimulatedTransport", server_host: str, port: int
    ) -> None:
        self.network = network
        self.client = client
        self.server: ServerEnd | None = None
        self.client_host = client.host
        self.server_host = server_host
        self._port = port
        self.clogged_until_ms = 0
        self.to_server = Pipe(self, self.client_host, server_host)
        self.to_client = Pipe(self, server_host, self.client_host)
        network.add(self)
        self.to_server.put(self._accept)

    def clog(self, duration_ms: int) -> None:
        """Let nothing arrive for a while."""
        self.clogged_until_ms = self.network.schedule.monotonic_ms() + duration_ms

    def resume(self) -> None:
        self.to_server.resume()
        self.to_client.resume()

    def _accept(self) -> None:
        listening = self.network.listener(self.server_host, self._port)
        if listening is None:
            self.to_client.put(partial(self.client.deliver_lost, "connection refused"))
        else:
            listening.scope.run(partial(self._accepted, listening.application, listening.scope))

    def _accepted(self, application: Application, scope: TimerScope) -> None:
        client = ConnectedHost(self.client_host, self.network.next_port())
        self.server = ServerEnd(self, application, scope, client)
        application.connected(client)
        self.to_client.put(self.client.deliver_connected)

    def send_to_server(self, frame: bytes) -> None:
        self.to_server.put(partial(self._arrive_at_server, frame))

    def _arrive_at_server(self, frame: bytes) -> None:
        if self.server is None or self.server.is_gone:
            self.to_client.put(partial(self.client.deliver_lost, "connection reset"))
        else:
            self.server.deliver(partial(self.server.receive, frame))

    def send_to_client(self, frame: bytes) -> None:
        self.to_client.put(partial(self._arrive_at_client, frame))

    def _arrive_at_client(self, frame: bytes) -> None:
        if self.client.is_gone:
            self.to_server.put(partial(self.lose_at_server, "connection reset"))
        else:
            self.client.deliver_frame(frame)

    def lose_at_server(self, reason: str) -> None:
        if self.server is not None:
            self.server.lose(reason)

    def lose_at(self, host: str, reason: str, *, tells_other: bool = False) -> None:
        """End the connection at one host; the other one learns it if it is told, or if it sends."""
        if host == self.client_host:
            self.client.deliver_lost(reason)
            if tells_other:
                self.to_server.put(partial(self.lose_at_server, reason))
        if host == self.server_host:
            self.lose_at_server(reason)
            if tells_other:
                self.to_client.put(partial(self.client.deliver_lost, reason))

    def end_changed(self) -> None:
        if self.client.is_gone and (self.server is None or self.server.is_gone):
            self.network.remove(self)


class _End:
    """An end in a process: it takes packets in order, late if the process is paused."""

    def __init__(self, scope: TimerScope) -> None:
        self.scope = scope
        self._inbox: deque[Callable[[], None]] = deque()
        self._is_closed = False

    @property
    def is_gone(self) -> bool:
        return self._is_closed or self.scope.is_closed

    def deliver(self, action: Callable[[], None]) -> None:
        self._inbox.append(action)
        self.scope.run(self._take)

    def _take(self) -> None:
        action = self._inbox.popleft()
        if not self.is_gone:
            action()


class SimulatedTransport(_End):
    """The Transport of a PeerChannel: the end that connects."""

    def __init__(
        self,
        network: "SimulatedNetwork",
        host: str,
        server: tuple[str, int],
        scope: TimerScope,
        events: "TransportEvents",
        *,
        clears_frames: bool,
    ) -> None:
        super().__init__(scope)
        self.host = host
        self._events = events
        self._clears_frames = clears_frames
        self._link = Link(network, self, *server)

    def write(self, frame: bytes) -> None:
        self._link.send_to_server(frame)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._link.to_server.put(partial(self._link.lose_at_server, "closed by the client"))
            self._link.end_changed()

    def deliver_connected(self) -> None:
        if self.is_gone:
            self._link.to_server.put(partial(self._link.lose_at_server, "connection reset"))
        else:
            self.deliver(lambda: self._events.connected(self))

    def deliver_frame(self, frame: bytes) -> None:
        self.deliver(partial(self._received, bytearray(frame)))

    def _received(self, frame: bytearray) -> None:
        self._events.received(self, memoryview(frame)[LENGTH_BYTES:])
        if self._clears_frames:
            frame[:] = bytes(len(frame))

    def deliver_lost(self, reason: str) -> None:
        self.deliver(partial(self._lost, reason))
        if self.scope.is_closed:
            self._link.end_changed()

    def _lost(self, reason: str) -> None:
        self._is_closed = True
        self._link.end_changed()
        self._events.lost(self, reason)


class ServerEnd(_End):
    """The accepted end: gives requests to the application, and sends responses in their order."""

    def __init__(
        self, link: Link, application: Application, scope: TimerScope, client: ConnectedHost
    ) -> None:
        super().__init__(scope)
        self._link = link
        self._application = application
        self.client = client
        self._exchanges: deque[SimulatedExchange] = deque()

    def receive(self, frame: bytes) -> None:
        exchange = SimulatedExchange(self)
        self._exchanges.append(exchange)
        memory = bytearray(frame)
        self._application.receive(exchange, memoryview(memory)[LENGTH_BYTES:])
        memory[:] = bytes(len(memory))

    def flush(self) -> None:
        """Send the responses whose turn it is; a close has its turn, too."""
        while self._exchanges and not self.is_gone:
            oldest = self._exchanges[0]
            if oldest.closed is not None:
                self.lose(oldest.closed)
                self._link.to_client.put(
                    partial(self._link.client.deliver_lost, "closed by the peer")
                )
            elif oldest.frame is None:
                return
            else:
                self._exchanges.popleft()
                if oldest.frame:
                    self._link.send_to_client(oldest.frame)

    def lose(self, _reason: str) -> None:
        """The connection is gone; the application is told in an event of its own."""
        if not self.is_gone:
            self.scope.soon(lambda: self._application.disconnected(self.client))
        self._is_closed = True
        self._link.end_changed()


class SimulatedExchange:
    """The Exchange port. File slices are read when the broker answers."""

    def __init__(self, end: ServerEnd) -> None:
        self._end = end
        self.frame: bytes | None = None
        self.closed: str | None = None

    @property
    def client(self) -> Client:
        return self._end.client

    def answer(self, parts: Sequence[Part]) -> None:
        assert self.frame is None, "a request was answered twice"
        self.frame = b"".join(p.read() if isinstance(p, FileSlice) else bytes(p) for p in parts)
        if self.frame:
            length = int.from_bytes(self.frame[:LENGTH_BYTES], "big")
            assert length == len(self.frame) - LENGTH_BYTES, "the length does not match the frame"
        self._end.flush()

    def close(self, reason: str) -> None:
        self.closed = reason
        self._end.flush()
