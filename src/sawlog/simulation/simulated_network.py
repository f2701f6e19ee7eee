"""The network of a simulation: hosts, connections and their faults, from a seed.

A connection keeps the order of its frames, and connections are independent of each other, as TCP
gives it. Frames are encoded and decoded as on a socket. Faults: a connection breaks at both ends,
or at one only (the other learns it when it sends something); it is clogged for a while; the
hosts are cut off from each other, in one direction or both. Frames that meet a cut wait for `heal`,
or until the sender gives up.
"""

from dataclasses import dataclass
from functools import partial
from random import Random as Generator
from typing import Any

from sawlog.protocol.peer_channel import PeerChannel, TransportEvents
from sawlog.protocol.peers import PeerError
from sawlog.protocol.schema import Message
from sawlog.simulation.schedule import Schedule, TimerScope
from sawlog.simulation.simulated_connection import Application, Link, SimulatedTransport

MAX_DELAY_MS = 5
FIRST_EPHEMERAL_PORT = 32_768


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """How likely each fault is with each frame, from 0 to 1."""

    breaks: float = 0.0
    half_open: float = 0.0
    clogs: float = 0.0
    clog_ms: int = 1_000


NO_FAULTS = NetworkFaults()


class Listening:
    """A listening process of a host."""

    def __init__(self, application: Application, scope: TimerScope) -> None:
        self.application = application
        self.scope = scope


class SimulatedNetwork:
    """All hosts and their connections."""

    def __init__(self, schedule: Schedule, seed: int) -> None:
        self.schedule = schedule
        self.faults = NO_FAULTS
        self._generator = Generator(seed)
        self._listening: dict[tuple[str, int], Listening] = {}
        self._links: dict[Link, None] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._silent: set[str] = set()
        self._last_port = FIRST_EPHEMERAL_PORT

    # Hosts

    def listen(
        self, host: str, port: int, application: Application, scope: TimerScope | None = None
    ) -> None:
        """Accept connections for `application`, a process whose events are `scope`."""
        self._silent.discard(host)
        self._listening[host, port] = Listening(application, scope or self.schedule.scope())
        for link in list(self._links):
            link.resume()

    def peers(self, host: str, scope: TimerScope) -> "SimulatedPeers":
        """Return the Peers port of a process on `host` whose events are `scope`."""
        return SimulatedPeers(self, host, scope)

    def client(self, host: str, server: str, port: int) -> "ClientConnection":
        """Return a client's connection from `host`; the first request opens it."""
        return ClientConnection(self, host, server, port)

    def crash(self, host: str, *, silently: bool = False) -> None:
        """End the process of a host with its connections.

        The kernel resets the connections of a killed process; a host without power is silent until
        it listens again, and its peers find out by their timeouts.
        """
        for where in [each for each in self._listening if each[0] == host]:
            self._listening.pop(where).scope.close()
        for link in [each for each in self._links if host in (each.client_host, each.server_host)]:
            link.lose_at(host, "connection reset", tells_other=not silently)
        if silently:
            self._silent.add(host)

    # Faults

    def cut(self, one: str, other: str) -> None:
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_one_way(self, source: str, target: str) -> None:
        self._cuts.add((source, target))

    def heal(self) -> None:
        """End all cuts; frames that were held arrive."""
        self._cuts.clear()
        for link in list(self._links):
            link.resume()

    def clog(self, one: str, other: str, duration_ms: int) -> None:
        """Stall all present connections between two hosts for a while."""
        for link in self._links_between(one, other):
            link.clog(duration_ms)

    def break_connections(self, one: str, other: str, *, known_to: str | None = None) -> None:
        """Break all connections between two hosts; both ends learn it, or only host `known_to`."""
        for link in self._links_between(one, other):
            self._break(link, known_to)

    def _break(self, link: Link, known_to: str | None) -> None:
        for host in (link.client_host, link.server_host):
            if known_to in (None, host):
                link.lose_at(host, "connection reset")

    # For links and peers

    @property
    def has_cuts(self) -> bool:
        return bool(self._cuts)

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def is_silent(self, host: str) -> bool:
        return host in self._silent

    def listener(self, host: str, port: int) -> Listening | None:
        found = self._listening.get((host, port))
        return found if found is not None and not found.scope.is_closed else None

    def delay_ms(self) -> int:
        return self._generator.randint(0, MAX_DELAY_MS)

    def draw_faults(self, link: Link) -> None:
        """Perhaps break or clog the connection that sends a frame."""
        faults = self.faults
        if faults is NO_FAULTS:
            return
        draw = self._generator.random
        if draw() < faults.breaks:
            is_half_open = draw() < faults.half_open
            hosts = [link.client_host, link.server_host]
            known_to = hosts[int(draw() < 0.5)] if is_half_open else None
            self.schedule.soon(partial(self._break, link, known_to))
        if draw() < faults.clogs:
            link.clog(faults.clog_ms)

    def next_port(self) -> int:
        self._last_port += 1
        return self._last_port

    def add(self, link: Link) -> None:
        self._links[link] = None

    def remove(self, link: Link) -> None:
        self._links.pop(link, None)

    def _links_between(self, one: str, other: str) -> list[Link]:
        hosts = {one, other}
        return [each for each in self._links if {each.client_host, each.server_host} == hosts]


class SimulatedPeers:
    """The Peers port of one process."""

    def __init__(self, network: SimulatedNetwork, host: str, scope: TimerScope) -> None:
        self._network = network
        self._host = host
        self._scope = scope

    def connect(self, host: str, port: int) -> PeerChannel:
        return open_channel(self._network, self._host, self._scope, (host, port))


class ClientCall:
    """A client's request: the response in `answered`, or why there is none in `failed`."""

    def __init__(self) -> None:
        self.answered: Any = None
        self.failed: PeerError | None = None

    @property
    def is_done(self) -> bool:
        return self.answered is not None or self.failed is not None

    def done(self, result: Message | PeerError) -> None:
        assert not self.is_done, "a request was answered twice"
        if isinstance(result, PeerError):
            self.failed = result
        else:
            self.answered = result


class ClientConnection:
    """A connection of a simulated client; its responses stay valid."""

    def __init__(self, network: SimulatedNetwork, host: str, server: str, port: int) -> None:
        self.scope = network.schedule.scope()
        self._channel = open_channel(network, host, self.scope, (server, port), clears_frames=False)

    def send(
        self, message: Message, *, highest_version: int | None = None, timeout_ms: int = 30_000
    ) -> ClientCall:
        call = ClientCall()
        self._channel.send(
            message, call.done, timeout_ms=timeout_ms, highest_version=highest_version
        )
        return call

    def close(self) -> None:
        self._channel.close()


def open_channel(
    network: SimulatedNetwork,
    host: str,
    scope: TimerScope,
    server: tuple[str, int],
    *,
    clears_frames: bool = True,
) -> PeerChannel:
    def open_transport(events: TransportEvents) -> SimulatedTransport:
        return SimulatedTransport(network, host, server, scope, events, clears_frames=clears_frames)

    address = f"{server[0]}:{server[1]}"
    return PeerChannel(address, scope, open_transport, client_id=host)
