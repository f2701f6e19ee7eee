"""The client's side of a connection without IO: versions, correlation ids, frames.

The owner of the socket writes the frames that `frame` returns, registers each request that has a
response with `expect`, and passes the frames it receives to `read_response`. Before any other
request it asks for the peer's versions: `ApiVersions` first in our last version, then as
`learn_versions` says.
"""

from collections import deque
from struct import Struct
from typing import Any, Generic, TypeVar

from sawlog import __version__
from sawlog.core.errors import ErrorCode, MalformedFrame
from sawlog.protocol import headers
from sawlog.protocol.apis import (
    ApiKey,
    request_header_version,
    response_header_version,
    valid_versions,
)
from sawlog.protocol.codec import decoder, encoder
from sawlog.protocol.messages.api_versions_request import ApiVersionsRequest
from sawlog.protocol.messages.api_versions_response import ApiVersionsResponse
from sawlog.protocol.schema import Message

LENGTH_BYTES = 4
_LENGTH = Struct(">i")

Response = TypeVar("Response", bound=Message)


class NoCommonVersion(Exception):
    """The peer offers no version of `api` that this side has."""

    def __init__(self, api: ApiKey, offered: str, known: str) -> None:
        super().__init__(f"{api.name} is offered in versions {offered}, known are {known}")
        self.api = api
        self.offered = offered
        self.known = known


class NegotiationFailed(Exception):
    """The peer answered ApiVersions with an error."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(f"ApiVersions failed: {error.name}")
        self.error = error


class BadLength(MalformedFrame):
    """The length of a frame is not positive, or beyond the limit."""

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(f"a frame of {length} bytes; 1 to {limit} are legal")
        self.length = length


class InFlight(Generic[Response]):
    """A request whose response is expected."""

    __slots__ = ("api", "correlation_id", "response_class", "version")

    def __init__(
        self, api: ApiKey, version: int, correlation_id: int, response_class: type[Response]
    ) -> None:
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.response_class = response_class


FlightT = TypeVar("FlightT", bound=InFlight[Any])


class Session(Generic[FlightT]):
    """Invariant: `in_flight` has the requests without a response, in the order they were sent.

    A session lasts as long as its connection: what is in flight at the end has no response.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._offered: dict[int, tuple[int, int]] = {}
        self._finalized: dict[str, int] = {}
        self._last_correlation_id = 0
        self.in_flight: deque[FlightT] = deque()

    # Versions

    def learn_versions(self, response: ApiVersionsResponse, asked_version: int) -> int | None:
        """Take the peer's versions; return the version to ask again with, None if that is all."""
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and asked_version > 0:
            # The response is version 0, with the list or, before 2.4, without it (KIP-511).
            listed = {entry.api_key: entry.max_version for entry in response.api_keys}
            return min(asked_version - 1, listed.get(ApiKey.API_VERSIONS, 0))
        if response.error_code:
            raise NegotiationFailed(ErrorCode(response.error_code))
        self._offered = {
            entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys
        }
        self._finalized = {
            feature.name: feature.max_version_level for feature in response.finalized_features
        }
        return None

    def finalized_feature(self, name: str) -> int:
        """Return the level of a feature that the peer has finalized (KIP-584); 0 without it."""
        return self._finalized.get(name, 0)

    def version(self, api: ApiKey, highest: int | None = None) -> int:
        """Return the highest version that both sides have, at most `highest`; NoCommonVersion."""
        first, last = valid_versions(api)
        if highest is not None:
            last = min(last, highest)
        offered_first, offered_last = self._offered.get(api, (0, -1))
        chosen = min(last, offered_last)
        if chosen < max(first, offered_first):
            offered = f"{offered_first} to {offered_last}" if offered_last >= 0 else "none"
            raise NoCommonVersion(api, offered, f"{first} to {last}")
        return chosen

    # Frames

    def frame(self, request: Message, api: ApiKey, version: int) -> tuple[int, bytes]:
        """Encode a request; return its correlation id, and the frame with its length."""
        self._last_correlation_id = correlation_id = (self._last_correlation_id + 1) & 0x7FFFFFFF
        header = headers.write_request_header(
            headers.RequestHeader(api, version, correlation_id, self._client_id),
            request_header_version(api, version),
        )
        body = encoder(type(request), version)(request)
        length = _LENGTH.pack(len(header) + len(body))
        return correlation_id, b"".join((length, header, body))

    def expect(self, request: FlightT) -> None:
        self.in_flight.append(request)

    def read_response(self, frame: memoryview) -> tuple[FlightT, Message]:
        """Decode the response to the oldest request, from a frame without its length.

        MalformedFrame if it is not such a response; the session cannot be used any more then.
        """
        if not self.in_flight:
            raise MalformedFrame("a response without a request")
        oldest = self.in_flight[0]
        api, version = oldest.api, oldest.version
        header_version = response_header_version(api, version)
        correlation_id, position = headers.read_response_header(frame, header_version)
        if correlation_id != oldest.correlation_id:
            raise MalformedFrame(
                f"correlation id {correlation_id} in place of {oldest.correlation_id}"
            )
        if api is ApiKey.API_VERSIONS and version > 0:
            code = int.from_bytes(frame[position : position + 2], "big", signed=True)
            if code == ErrorCode.UNSUPPORTED_VERSION:
                version = 0
        response: Message = decoder(oldest.response_class, version)(frame, position)[0]
        self.in_flight.popleft()
        return oldest, response


def first_request() -> tuple[ApiVersionsRequest, int]:
    """Return the first request on a connection, and its version."""
    request = ApiVersionsRequest(client_software_name="sawlog", client_software_version=__version__)
    return request, valid_versions(ApiKey.API_VERSIONS)[1]


def read_length(start: bytes | bytearray | memoryview, limit: int) -> int:
    """Return the length of the frame that begins with `start`; BadLength beyond `limit`."""
    (length,) = _LENGTH.unpack_from(start)
    if not 0 < length <= limit:
        raise BadLength(length, limit)
    return int(length)
