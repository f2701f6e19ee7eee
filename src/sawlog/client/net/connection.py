"""One connection to one broker: version negotiation, requests, and responses in request order.

Several requests may be in flight; waiting for one reads the responses before it too. Blocking, for
one thread. After an error of the connection, or an interrupt within a frame, it is closed.
"""

import socket
from typing import TypeVar

from sawlog.client.errors import (
    ConnectionLost,
    NoBrokerReachable,
    RequestTimedOut,
    UnexpectedResponse,
    UnsupportedRequest,
)
from sawlog.client.fork_guard import ForkGuard
from sawlog.client.net.addresses import Address
from sawlog.client.net.retries import Deadline
from sawlog.client.net.wakeup import wait_readable
from sawlog.core.errors import MalformedFrame
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.api_versions_response import ApiVersionsResponse
from sawlog.protocol.schema import Message
from sawlog.protocol.session import (
    LENGTH_BYTES,
    BadLength,
    InFlight,
    NegotiationFailed,
    NoCommonVersion,
    Session,
    first_request,
    read_length,
)

DEFAULT_REQUEST_TIMEOUT_MS = 30_000
DEFAULT_CONNECT_TIMEOUT_MS = 10_000
MAX_RESPONSE_BYTES = 512 * 1024 * 1024
_HTTP_STARTS = frozenset({b"HTTP", b"<!DO", b"<htm"})  # some servers send a bare page

Response = TypeVar("Response", bound=Message)


class Pending(InFlight[Response]):
    """A request in flight; `response` is None until it was read."""

    __slots__ = ("deadline", "response")

    def __init__(
        self,
        api: ApiKey,
        version: int,
        correlation_id: int,
        response_class: type[Response],
        deadline: Deadline,
    ) -> None:
        super().__init__(api, version, correlation_id, response_class)
        self.deadline = deadline
        self.response: Response | None = None


class Connection:
    """Connected, with negotiated versions, once the constructor returns."""

    def __init__(
        self,
        address: Address,
        *,
        client_id: str = "sawlog",
        request_timeout_ms: float = DEFAULT_REQUEST_TIMEOUT_MS,
        connect_timeout_ms: float = DEFAULT_CONNECT_TIMEOUT_MS,
    ) -> None:
        self.address = address
        self._fork_guard = ForkGuard()
        self._request_timeout_ms = request_timeout_ms
        self._session: Session[Pending[Message]] = Session(client_id)
        self._closed_because: str | None = None
        try:
            self._socket = socket.create_connection(address, timeout=connect_timeout_ms / 1_000)
        except OSError as error:
            raise NoBrokerReachable(f"cannot connect to {address}: {_reason(error)}") from error
        except UnicodeError as error:  # not encodable as a host name
            raise NoBrokerReachable(f"cannot connect to {address}: not a host name") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._negotiate_versions(min(connect_timeout_ms, request_timeout_ms))
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the socket's descriptor, which is readable when a response or the end arrived."""
        return self._socket.fileno()

    @property
    def is_open(self) -> bool:
        return self._closed_because is None

    @property
    def is_usable(self) -> bool:
        """Open, and not closed by the broker while idle."""
        if not self._fork_guard.is_same_process:
            self.close("it belongs to the parent process of this fork")
        if self.is_open and not self._session.in_flight and wait_readable([self.fileno()], 0):
            self.close("the broker closed it")
        return self.is_open

    def close(self, reason: str = "it was closed by this client") -> None:
        if self._closed_because is None:
            self._closed_because = reason
            self._socket.close()

    def version(self, api: ApiKey, highest: int | None = None) -> int:
        """Return the highest version that both sides have, at most `highest`."""
        try:
            return self._session.version(api, highest)
        except NoCommonVersion as error:
            raise UnsupportedRequest(
                f"{self.address} offers {api.name} in versions {error.offered}, this client has"
                f" {error.known}; use a newer broker"
            ) from None

    def finalized_feature(self, name: str) -> int:
        """Return the level of a feature that the broker has finalized; 0 without it."""
        return self._session.finalized_feature(name)

    def send(
        self,
        request: Message,
        response_class: type[Response],
        *,
        highest_version: int | None = None,
        timeout_ms: float | None = None,
    ) -> Pending[Response]:
        """Send a request and return; `wait` or `poll` return its response."""
        api = _api_of(request)
        version = self.version(api, highest_version)
        return self._write(request, response_class, api, version, timeout_ms)

    def send_without_response(
        self, request: Message, *, highest_version: int | None = None
    ) -> None:
        """Send a Produce request with acks=0, which has no response."""
        api = _api_of(request)
        version = self.version(api, highest_version)
        self._write(request, Message, api, version, None, has_response=False)

    def wait(self, pending: Pending[Response]) -> Response:
        while pending.response is None:
            self._read_next(pending.deadline)
        return pending.response

    def poll(self, pending: Pending[Response]) -> Response | None:
        """Return the response if it has arrived; ConnectionLost or RequestTimedOut if none will."""
        if pending.response is None:
            self._read_available()
        if pending.response is None and (pending.deadline.has_passed or not self.is_open):
            return self.wait(pending)  # raises the one of the two
        return pending.response

    def request(
        self,
        request: Message,
        response_class: type[Response],
        *,
        highest_version: int | None = None,
        timeout_ms: float | None = None,
    ) -> Response:
        return self.wait(
            self.send(
                request, response_class, highest_version=highest_version, timeout_ms=timeout_ms
            )
        )

    def _negotiate_versions(self, timeout_ms: float) -> None:
        request, version = first_request()
        while True:
            response = self.wait(
                self._write(request, ApiVersionsResponse, ApiKey.API_VERSIONS, version, timeout_ms)
            )
            try:
                next_version = self._session.learn_versions(response, version)
            except NegotiationFailed as error:
                raise UnexpectedResponse(
                    f"{self.address} refused ApiVersions: {error.error.name}"
                ) from None
            if next_version is None:
                return
            version = next_version

    def _write(
        self,
        request: Message,
        response_class: type[Response],
        api: ApiKey,
        version: int,
        timeout_ms: float | None,
        *,
        has_response: bool = True,
    ) -> Pending[Response]:
        self._check_open()
        deadline = Deadline(self._request_timeout_ms if timeout_ms is None else timeout_ms)
        correlation_id, frame = self._session.frame(request, api, version)
        pending = Pending(api, version, correlation_id, response_class, deadline)
        try:
            self._socket.settimeout(max(deadline.remaining_ms, 1) / 1_000)
            self._socket.sendall(frame)
            if has_response:
                self._session.expect(pending)  # type: ignore[arg-type]  # read by its own class
        except OSError as error:
            raise self._fail(f"sending {api.name}", error, deadline) from error
        except BaseException:
            self.close(f"sending {api.name} was interrupted")
            raise
        return pending

    def _read_next(self, deadline: Deadline) -> None:
        """Read one response: that of the oldest request in flight."""
        self._check_open()
        oldest = self._session.in_flight[0]
        what = f"waiting for the response to {oldest.api.name}"
        try:
            oldest.response = self._session.read_response(self._receive(deadline))[1]
        except OSError as error:
            raise self._fail(what, error, deadline) from error
        except MalformedFrame as error:
            self.close("its responses are malformed")
            raise UnexpectedResponse(
                f"{self.address} sent a malformed response to {oldest.api.name}"
                f" v{oldest.version}: {error}"
            ) from error
        except BaseException:
            self.close(f"{what} was interrupted")
            raise

    def _read_available(self) -> None:
        """Read the responses that have begun to arrive, without waiting for others."""
        while self._session.in_flight and self.is_open and wait_readable([self.fileno()], 0):
            self._read_next(self._session.in_flight[0].deadline)

    def _receive(self, deadline: Deadline) -> memoryview:
        start = self._receive_exactly(LENGTH_BYTES, deadline)
        try:
            length = read_length(start, MAX_RESPONSE_BYTES)
        except BadLength as error:
            self.close("its responses are malformed")
            raise UnexpectedResponse(
                f"{self.address} {_describe_peer(bytes(start), error.length)}"
            ) from None
        return self._receive_exactly(length, deadline)

    def _receive_exactly(self, length: int, deadline: Deadline) -> memoryview:
        view = memoryview(bytearray(length))
        received = 0
        while received < length:
            # Bytes that have arrived are read even after the deadline.
            self._socket.settimeout(max(deadline.remaining_ms, 1) / 1_000)
            count = self._socket.recv_into(view[received:])
            if count == 0:
                raise ConnectionResetError("the broker closed it")
            received += count
        return view

    def _check_open(self) -> None:
        if self._closed_because is not None:
            raise ConnectionLost(
                f"the connection to {self.address} is closed: {self._closed_because}"
            )

    def _fail(
        self, what: str, error: OSError, deadline: Deadline
    ) -> ConnectionLost | RequestTimedOut:
        if isinstance(error, TimeoutError):
            reason = f"{self.address} did not respond within {deadline.timeout_ms:.0f} ms"
            self.close(reason)
            return RequestTimedOut(f"{reason}, while {what}")
        self.close(_reason(error))
        return ConnectionLost(
            f"the connection to {self.address} was lost while {what}: {_reason(error)}"
        )


def _describe_peer(start: bytes, length: int) -> str:
    """Describe a peer whose response begins with `start`."""
    if start in _HTTP_STARTS:
        return "is an HTTP server; expected a Kafka listener"
    return (
        f"announced a response of {length} bytes, more than {MAX_RESPONSE_BYTES}; expected a Kafka"
        " listener without TLS"
    )


def _api_of(request: Message) -> ApiKey:
    return ApiKey(request.SCHEMA.api_key)


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
