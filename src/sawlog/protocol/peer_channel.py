"""A PeerConnection on any transport: opens it, negotiates versions, matches responses, times out.

`server/peers.py` gives it sockets, `simulation/simulated_network.py` simulated ones; everything
that a broker can observe is decided here. A request that times out ends the connection, as in
Kafka's NetworkClient: the responses behind it could not be matched to their requests.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Protocol

from sawlog.core.errors import MalformedFrame
from sawlog.core.ports import Timer, TimerHandle
from sawlog.protocol.apis import ApiKey, response_class
from sawlog.protocol.codec import NotEncodable
from sawlog.protocol.messages.api_versions_response import ApiVersionsResponse
from sawlog.protocol.peers import OnResponse, PeerError
from sawlog.protocol.schema import Message
from sawlog.protocol.session import (
    InFlight,
    NegotiationFailed,
    NoCommonVersion,
    Session,
    first_request,
)

CONNECT_TIMEOUT_MS = 10_000
"""Kafka's socket.connection.setup.timeout.ms; it includes the negotiation of versions."""


class Transport(Protocol):
    """One attempt to connect, and the connection that comes of it."""

    def write(self, frame: bytes) -> None:
        """Send a frame with its length, after the earlier ones; only once it is connected."""
        ...

    def close(self) -> None:
        """Disconnect. The channel is not called any more."""
        ...


class TransportEvents(Protocol):
    """Called by a transport, later than the call that caused it; the last call is `lost`."""

    def connected(self, transport: Transport) -> None: ...

    def received(self, transport: Transport, frame: memoryview) -> None:
        """Take one response without its length; the frame's memory is reused afterwards."""
        ...

    def lost(self, transport: Transport, reason: str) -> None: ...


OpenTransport = Callable[[TransportEvents], Transport]


class ChannelState(Enum):
    IDLE = auto()  # not connected; the next request connects
    CONNECTING = auto()
    NEGOTIATING = auto()
    READY = auto()
    CLOSED = auto()


class PeerRequest(InFlight[Message]):
    """A request of this channel, from `send` until `done` was called."""

    __slots__ = ("done", "highest_version", "request", "timeout")

    def __init__(self, request: Message, done: OnResponse, highest_version: int | None) -> None:
        api = ApiKey(request.SCHEMA.api_key)
        super().__init__(api, -1, -1, response_class(api))
        self.request = request
        self.done = done
        self.highest_version = highest_version
        self.timeout: TimerHandle | None = None

    def finish(self, result: Message | PeerError) -> None:
        if self.timeout is not None:
            self.timeout.cancel()
        self.done(result)


class PeerChannel:
    """The PeerConnection port.

    Invariant: `_waiting` has requests only while it connects or negotiates; in flight are requests
    only while it is ready, or the ApiVersions request. Both are empty when it is idle or closed.
    """

    def __init__(
        self,
        address: str,
        timer: Timer,
        open_transport: OpenTransport,
        *,
        client_id: str,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
    ) -> None:
        self._address = address
        self._timer = timer
        self._open = open_transport
        self._client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self._state = ChannelState.IDLE
        self._transport: Transport | None = None
        self._session: Session[PeerRequest] = Session(client_id)
        self._waiting: deque[PeerRequest] = deque()
        self._connect_timeout: TimerHandle | None = None

    # Requests

    def send(
        self,
        request: Message,
        done: OnResponse,
        *,
        timeout_ms: int,
        highest_version: int | None = None,
    ) -> None:
        """Send as PeerConnection says. The message must not change before `done`."""
        pending = PeerRequest(request, done, highest_version)
        if self._state is ChannelState.CLOSED:
            self._fail_later(deque([pending]), "the connection was closed")
            return
        reason = f"no response to {pending.api.name} within {timeout_ms} ms"
        pending.timeout = self._timer.after(timeout_ms, partial(self._end, reason))
        if self._state is ChannelState.READY:
            self._transmit(pending)
            return
        self._waiting.append(pending)
        if self._state is ChannelState.IDLE:
            self._connect()

    def close(self) -> None:
        self._disconnect(ChannelState.CLOSED, "the connection was closed")

    def _transmit(self, pending: PeerRequest) -> None:
        assert self._transport is not None
        session = self._session
        try:
            pending.version = session.version(pending.api, pending.highest_version)
            pending.correlation_id, frame = session.frame(
                pending.request, pending.api, pending.version
            )
        except (NoCommonVersion, NotEncodable) as error:
            self._fail_later(deque([pending]), str(error))
            return
        session.expect(pending)
        self._transport.write(frame)

    # The connection

    def _connect(self) -> None:
        self._state = ChannelState.CONNECTING
        self._session = Session(self._client_id)
        timeout_ms = self._connect_timeout_ms
        self._connect_timeout = self._timer.after(
            timeout_ms, partial(self._end, f"not connected within {timeout_ms} ms")
        )
        self._transport = self._open(self)

    def connected(self, transport: Transport) -> None:
        if transport is self._transport:
            self._state = ChannelState.NEGOTIATING
            self._ask_versions(first_request()[1])

    def _ask_versions(self, version: int) -> None:
        assert self._transport is not None
        question = PeerRequest(first_request()[0], partial(self._learn_versions, version), None)
        question.version = version
        question.correlation_id, frame = self._session.frame(
            question.request, question.api, version
        )
        self._session.expect(question)
        self._transport.write(frame)

    def _learn_versions(self, asked_version: int, response: Message | PeerError) -> None:
        assert isinstance(response, ApiVersionsResponse)
        next_version = self._session.learn_versions(response, asked_version)
        if next_version is not None:
            self._ask_versions(next_version)
            return
        self._cancel_connect_timeout()
        self._state = ChannelState.READY
        waiting, self._waiting = self._waiting, deque()
        for pending in waiting:
            self._transmit(pending)

    def received(self, transport: Transport, frame: memoryview) -> None:
        if transport is not self._transport:
            return
        try:
            request, response = self._session.read_response(frame)
        except MalformedFrame as error:
            self._end(f"malformed response: {error}")
            return
        if self._state is ChannelState.READY:
            request.finish(response)
            return
        try:
            request.finish(response)
        except NegotiationFailed as error:
            self._end(str(error))

    def lost(self, transport: Transport, reason: str) -> None:
        if transport is self._transport:
            self._end(reason)

    # The end

    def _end(self, reason: str) -> None:
        self._disconnect(ChannelState.IDLE, reason)

    def _disconnect(self, state: ChannelState, reason: str) -> None:
        if self._state is ChannelState.CLOSED:
            return
        is_negotiating = self._state is ChannelState.NEGOTIATING
        self._state = state
        self._cancel_connect_timeout()
        in_flight = () if is_negotiating else self._session.in_flight
        failed = deque([*in_flight, *self._waiting])
        self._session = Session(self._client_id)
        self._waiting = deque()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
        self._fail_later(failed, reason)

    def _cancel_connect_timeout(self) -> None:
        if self._connect_timeout is not None:
            self._connect_timeout.cancel()
            self._connect_timeout = None

    def _fail_later(self, failed: deque[PeerRequest], reason: str) -> None:
        """Fail requests in their order, each in an event of its own, so that an exception in one
        `done` does not keep the others from being called."""
        for pending in failed:
            if pending.timeout is not None:
                pending.timeout.cancel()
        if failed:
            self._timer.after(0, partial(self._fail_next, failed, reason))

    def _fail_next(self, failed: deque[PeerRequest], reason: str) -> None:
        pending = failed.popleft()
        if failed:
            self._timer.after(0, partial(self._fail_next, failed, reason))
        pending.done(PeerError(f"{self._address}: {reason}"))
