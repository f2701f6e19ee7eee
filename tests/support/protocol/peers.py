"""Peers on real sockets and on the simulated network, with a peer that a test scripts."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from sawlog.core.ports import Client, Exchange
from sawlog.protocol.apis import ApiKey, request_class, response_header_version
from sawlog.protocol.codec import decode, encode
from sawlog.protocol.headers import RequestHeader, read_request_header, response_prefix
from sawlog.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from sawlog.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from sawlog.protocol.messages.metadata_response import MetadataResponse
from sawlog.protocol.peers import PeerError, Peers
from sawlog.protocol.schema import Message
from sawlog.server.address import Address, listen
from sawlog.server.clock import LoopTimer
from sawlog.server.connection_limits import ConnectionLimits
from sawlog.server.connection_resources import ConnectionResources
from sawlog.server.listener import Listener
from sawlog.server.peers import SocketPeers
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_network import SimulatedNetwork

PATIENCE_S = 20
UNSUPPORTED_VERSION = 35


class ScriptedPeer:
    """An application that answers Metadata with the topic's name as the cluster id.

    The topic `hold` is answered when `release` is called, `close` closes the connection.
    """

    def __init__(self) -> None:
        self.versions = {ApiKey.API_VERSIONS: (0, 5), ApiKey.METADATA: (0, 13)}
        self.seen: list[tuple[ApiKey, int]] = []
        self.clients: list[Client] = []
        self.held: list[tuple[Exchange, RequestHeader]] = []

    def connected(self, client: Client) -> None:
        self.clients.append(client)

    def disconnected(self, client: Client) -> None:
        self.clients.remove(client)

    def receive(self, exchange: Exchange, frame: memoryview) -> None:
        header, position = read_request_header(frame)
        api = ApiKey(header.api_key)
        self.seen.append((api, header.api_version))
        if api is ApiKey.API_VERSIONS:
            self._offer(exchange, header)
            return
        message = decode(request_class(api), header.api_version, frame[position:])
        assert isinstance(message, MetadataRequest)
        assert message.topics is not None
        name = str(message.topics[0].name)
        if name == "hold":
            self.held.append((exchange, header))
        elif name == "close":
            exchange.close("on demand")
        else:
            reply(exchange, header, MetadataResponse(cluster_id=name), header.api_version)

    def release(self) -> None:
        for exchange, header in reversed(self.held):
            reply(exchange, header, MetadataResponse(cluster_id="held"), header.api_version)
        self.held.clear()

    def _offer(self, exchange: Exchange, header: RequestHeader) -> None:
        first, last = self.versions[ApiKey.API_VERSIONS]
        is_known = first <= header.api_version <= last
        offers = [ApiVersion(int(api), *versions) for api, versions in self.versions.items()]
        response = ApiVersionsResponse(0 if is_known else UNSUPPORTED_VERSION, offers)
        reply(exchange, header, response, header.api_version if is_known else 0)


def reply(exchange: Exchange, header: RequestHeader, response: Message, version: int) -> None:
    body = encode(response, version)
    header_version = response_header_version(ApiKey(header.api_key), version)
    exchange.answer([response_prefix(header.correlation_id, header_version, len(body)) + body])


def question(name: str) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name)])


class Results:
    """Collects what `done` gets: the cluster id of a response, or PeerError."""

    def __init__(self) -> None:
        self.all: list[str | type[PeerError] | None] = []
        self.reasons: list[str] = []

    def done(self, result: Message | PeerError) -> None:
        if isinstance(result, PeerError):
            self.all.append(PeerError)
            self.reasons.append(str(result))
        else:
            assert isinstance(result, MetadataResponse)
            self.all.append(result.cluster_id)


class PeersHarness(Protocol):
    peer: ScriptedPeer
    peers: Peers
    address: tuple[str, int]
    unreachable: tuple[str, int]

    def drive(self, until: Callable[[], bool]) -> bool: ...

    def close(self) -> None: ...


class PeersOnSockets:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.peer = ScriptedPeer()
        self.peers: Peers = SocketPeers(self._loop, LoopTimer(self._loop))
        sockets = listen(Address("127.0.0.1", 0), 10)
        resources = ConnectionResources(self._loop, self.peer, ConnectionLimits())
        self._listener = Listener(resources, Address("127.0.0.1", 0), sockets)
        self._listener.open()
        self.address = ("127.0.0.1", self._listener.address.port)
        closed = listen(Address("127.0.0.1", 0), 1)[0]
        self.unreachable = ("127.0.0.1", closed.getsockname()[1])
        closed.close()

    def drive(self, until: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + PATIENCE_S
        while not until() and time.monotonic() < deadline:
            self._loop.run_until_complete(asyncio.sleep(0))
        return until()

    def close(self) -> None:
        self._listener.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class PeersOnSimulatedNetwork:
    def __init__(self, seed: int = 7) -> None:
        self.schedule = Schedule(seed)
        self.network = SimulatedNetwork(self.schedule, seed)
        self.peer = ScriptedPeer()
        self.scope = self.schedule.scope()
        self.peer_scope = self.schedule.scope()
        self.peers: Peers = self.network.peers("here", self.scope)
        self.network.listen("there", 9092, self.peer, self.peer_scope)
        self.address = ("there", 9092)
        self.unreachable = ("there", 9093)

    def drive(self, until: Callable[[], bool]) -> bool:
        return self.schedule.run(until)

    def close(self) -> None:
        pass


HARNESSES: dict[str, Callable[[], PeersHarness]] = {
    "sockets": PeersOnSockets,
    "simulated": PeersOnSimulatedNetwork,
}
