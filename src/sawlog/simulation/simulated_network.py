"""A simulated network: connections between hosts with delay, loss, clogging and partitions.

A message takes a delay drawn from the seed; messages of one connection keep their order, those of
different connections do not. A lost message breaks its connection, as TCP does in the end.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from sawlog.core.ports import Client, Exchange, FileSlice, Part
from sawlog.protocol.apis import (
    ApiKey,
    request_header_version,
    response_class,
    response_header_version,
    valid_versions,
)
from sawlog.protocol.codec import decode, encode
from sawlog.protocol.headers import RequestHeader, read_response_header, write_request_header
from sawlog.protocol.peers import OnResponse, PeerError
from sawlog.protocol.schema import Message
from sawlog.simulation.schedule import Schedule, SeededRandom


class Application(Protocol):
    def connected(self, client: Client) -> None: ...

    def receive(self, exchange: Exchange, frame: memoryview) -> None: ...

    def disconnected(self, client: Client) -> None: ...


class SimulatedNetwork:
    def __init__(self, schedule: Schedule, seed: int) -> None:
        self.schedule = schedule
        self.random = SeededRandom(seed)
        self.max_delay_ms = 3
        self._listeners: dict[tuple[str, int], Application] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._connections: dict[_Connection, None] = {}

    def listen(self, host: str, port: int, application: Application) -> None:
        self._listeners[host, port] = application

    def close(self, host: str) -> None:
        for address in [a for a in self._listeners if a[0] == host]:
            del self._listeners[address]
        self.drop(host)

    def drop(self, host: str) -> None:
        for connection in [c for c in self._connections if host in (c.host, c.client.host)]:
            connection.break_off("the process ended")

    def peers(self, host: str) -> "SimulatedPeers":
        return SimulatedPeers(self, host)

    def cut(self, source: str, target: str) -> None:
        self._cuts.add((source, target))

    def heal(self) -> None:
        self._cuts.clear()

    def application(self, host: str, port: int) -> Application | None:
        return self._listeners.get((host, port))

    def transmit(self, source: str, target: str, arrive: Callable[[], None]) -> None:
        if (source, target) not in self._cuts:
            self.schedule.after(self.random.below(self.max_delay_ms + 1), arrive)

    def add(self, connection: "_Connection") -> None:
        self._connections[connection] = None

    def remove(self, connection: "_Connection") -> None:
        self._connections.pop(connection, None)


class SimulatedPeers:
    def __init__(self, network: SimulatedNetwork, host: str) -> None:
        self._network = network
        self._host = host

    def connect(self, host: str, port: int) -> "_Connection":
        return _Connection(self._network, self._host, host, port)


class _Client:
    def __init__(self, host: str) -> None:
        self.host = host
        self.port = 1


class _Pending:
    def __init__(self, api: ApiKey, version: int, done: OnResponse) -> None:
        self.api, self.version, self.done = api, version, done
        self.response: bytes | None = None
        self.is_sent = False


class _Connection:
    def __init__(self, network: SimulatedNetwork, source: str, host: str, port: int) -> None:
        self.network = network
        self.client: Client = _Client(source)
        self.host, self.port = host, port
        self._pending: deque[_Pending] = deque()
        self._outgoing: deque[tuple[_Pending, bytes]] = deque()
        self._replies: deque[_Pending] = deque()
        self._application: Application | None = None
        self._number = 0
        self._correlation_id = 0
        self._is_closed = False

    def send(self, request: Message, done: OnResponse, *, timeout_ms: int) -> None:
        assert request.SCHEMA.api_key is not None
        api = ApiKey(request.SCHEMA.api_key)
        version = valid_versions(api)[1]
        self._correlation_id += 1
        header = RequestHeader(int(api), version, self._correlation_id, "simulated")
        frame = write_request_header(header, request_header_version(api, version))
        frame += encode(request, version)
        call = _Pending(api, version, done)
        self._pending.append(call)
        self._outgoing.append((call, frame))
        self.network.add(self)
        number = self._number
        self.network.transmit(self.client.host, self.host, lambda: self._arrive(number))
        self.network.schedule.after(timeout_ms, lambda: self._time_out(call))

    def _arrive(self, number: int) -> None:
        if number != self._number:
            return
        application = self.network.application(self.host, self.port)
        if application is None or (self._application or application) is not application:
            self.break_off("refused")
            return
        if self._application is None:
            self._application = application
            application.connected(self.client)
        call, frame = self._outgoing.popleft()
        application.receive(_Exchange(self, number, call), memoryview(bytearray(frame)))

    def answered(self, number: int, call: _Pending, frame: bytes) -> None:
        if number != self._number:
            return
        call.response = frame
        while self._pending and self._replies_ready():
            pass

    def _replies_ready(self) -> bool:
        for call in self._pending:
            if call.is_sent:
                continue
            if call.response is None:
                return False
            call.is_sent = True
            self._replies.append(call)
            arrive = partial(self._deliver, self._number)
            self.network.transmit(self.host, self.client.host, arrive)
        return False

    def _deliver(self, number: int) -> None:
        if number != self._number:
            return
        call = self._replies.popleft()
        self._pending.remove(call)
        assert call.response is not None
        view = memoryview(call.response)[4:]
        _, position = read_response_header(view, response_header_version(call.api, call.version))
        call.done(decode(response_class(call.api), call.version, view[position:]))

    def _time_out(self, call: _Pending) -> None:
        if call in self._pending:
            self.break_off("timed out")

    def break_off(self, reason: str) -> None:
        self._number += 1
        self.network.remove(self)
        pending, self._pending = self._pending, deque()
        self._outgoing.clear()
        self._replies.clear()
        application, self._application = self._application, None
        if application is not None:
            application.disconnected(self.client)
        for call in pending:
            self.network.schedule.soon(partial(call.done, PeerError(reason)))

    def close(self) -> None:
        self.break_off("closed")


class _Exchange:
    def __init__(self, connection: _Connection, number: int, call: _Pending) -> None:
        self._connection, self._number, self._call = connection, number, call

    @property
    def client(self) -> Client:
        return self._connection.client

    def answer(self, parts: Sequence[Part]) -> None:
        frame = b"".join(p.read() if isinstance(p, FileSlice) else bytes(p) for p in parts)
        self._connection.answered(self._number, self._call, frame)

    def close(self, reason: str) -> None:
        self._connection.network.schedule.soon(lambda: self._connection.break_off(reason))
