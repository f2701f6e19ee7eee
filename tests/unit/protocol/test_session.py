"""The client's side of a connection without IO: versions, correlation ids, frames."""

import pytest

from sawlog.core.errors import ErrorCode, MalformedFrame
from sawlog.protocol.apis import ApiKey, valid_versions
from sawlog.protocol.codec import encode
from sawlog.protocol.headers import read_request_header, response_prefix
from sawlog.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from sawlog.protocol.messages.metadata_request import MetadataRequest
from sawlog.protocol.messages.metadata_response import MetadataResponse
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


def session_with(*offers: tuple[ApiKey, int, int]) -> Session[InFlight[Message]]:
    session: Session[InFlight[Message]] = Session("me")
    entries = [ApiVersion(int(api), first, last) for api, first, last in offers]
    assert session.learn_versions(ApiVersionsResponse(0, entries), 4) is None
    return session


def send(session: Session[InFlight[Message]], version: int = 12) -> tuple[int, bytes]:
    correlation_id, frame = session.frame(MetadataRequest(), ApiKey.METADATA, version)
    session.expect(InFlight(ApiKey.METADATA, version, correlation_id, MetadataResponse))
    return correlation_id, frame


def response(correlation_id: int, cluster: str, version: int = 12) -> memoryview:
    body = encode(MetadataResponse(cluster_id=cluster), version)
    return memoryview(response_prefix(correlation_id, 1, len(body)) + body)[LENGTH_BYTES:]


def test_the_highest_common_version_is_chosen() -> None:
    session = session_with((ApiKey.METADATA, 0, 10), (ApiKey.FETCH, 0, 99))
    assert session.version(ApiKey.METADATA) == 10
    assert session.version(ApiKey.METADATA, highest=9) == 9
    assert session.version(ApiKey.FETCH) == valid_versions(ApiKey.FETCH)[1]


@pytest.mark.parametrize(("offers", "offered"), [([], "none"), ([(ApiKey.FETCH, 0, 3)], "0 to 3")])
def test_no_common_version_is_an_error(offers: list[tuple[ApiKey, int, int]], offered: str) -> None:
    with pytest.raises(NoCommonVersion) as raised:
        session_with(*offers).version(ApiKey.FETCH)
    assert (raised.value.api, raised.value.offered) == (ApiKey.FETCH, offered)


def test_an_older_peer_is_asked_again_in_a_version_that_it_has() -> None:
    unsupported = int(ErrorCode.UNSUPPORTED_VERSION)
    session: Session[InFlight[Message]] = Session("me")
    _, version = first_request()
    listed = ApiVersionsResponse(unsupported, [ApiVersion(int(ApiKey.API_VERSIONS), 0, 2)])
    assert session.learn_versions(listed, version) == 2
    assert session.learn_versions(ApiVersionsResponse(unsupported), version) == 0
    with pytest.raises(NegotiationFailed):
        session.learn_versions(ApiVersionsResponse(unsupported), 0)


def test_a_refusal_of_our_version_is_read_in_version_0() -> None:
    session: Session[InFlight[Message]] = Session("me")
    request, version = first_request()
    correlation_id, _ = session.frame(request, ApiKey.API_VERSIONS, version)
    session.expect(InFlight(ApiKey.API_VERSIONS, version, correlation_id, ApiVersionsResponse))
    refusal = ApiVersionsResponse(35, [ApiVersion(int(ApiKey.API_VERSIONS), 0, 2)])
    body = encode(refusal, 0)
    frame = memoryview(response_prefix(correlation_id, 0, len(body)) + body)[LENGTH_BYTES:]
    assert session.read_response(frame)[1] == refusal


def test_a_frame_has_its_length_and_header() -> None:
    correlation_id, frame = send(session_with())
    assert read_length(frame, 1000) == len(frame) - LENGTH_BYTES
    header, _ = read_request_header(memoryview(frame)[LENGTH_BYTES:])
    assert header == (int(ApiKey.METADATA), 12, correlation_id, "me")


def test_responses_are_matched_in_the_order_of_the_requests() -> None:
    session = session_with()
    one, two = send(session)[0], send(session)[0]
    first, answer = session.read_response(response(one, "a"))
    assert (first.correlation_id, answer) == (one, MetadataResponse(cluster_id="a"))
    second, answer = session.read_response(response(two, "b"))
    assert (second.correlation_id, answer) == (two, MetadataResponse(cluster_id="b"))
    assert not session.in_flight


def test_a_response_out_of_order_is_malformed_and_leaves_its_request_in_flight() -> None:
    session = session_with()
    one, two = send(session)[0], send(session)[0]
    with pytest.raises(MalformedFrame, match=f"correlation id {two} in place of {one}"):
        session.read_response(response(two, "b"))
    assert len(session.in_flight) == 2


def test_a_response_without_a_request_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="without a request"):
        session_with().read_response(response(1, "a"))


@pytest.mark.parametrize("length", [0, -1, 101])
def test_a_length_outside_the_limit_is_rejected(length: int) -> None:
    with pytest.raises(BadLength):
        read_length(length.to_bytes(4, "big", signed=True), 100)
    assert read_length(b"\0\0\0\x64", 100) == 100
