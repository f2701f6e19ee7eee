"""A connection to a peer that responds late, wrongly, in old versions or not at all."""

import pytest

from sawlog.client.errors import (
    ConnectionLost,
    NoBrokerReachable,
    RequestTimedOut,
    UnexpectedResponse,
    UnsupportedRequest,
)
from sawlog.client.net.addresses import Address
from sawlog.client.net.connection import Connection
from sawlog.core.errors import ErrorCode
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from sawlog.protocol.messages.describe_cluster_request import DescribeClusterRequest
from sawlog.protocol.messages.describe_cluster_response import DescribeClusterResponse
from sawlog.protocol.messages.metadata_request import MetadataRequest
from sawlog.protocol.messages.metadata_response import MetadataResponse
from support.client.scripted_broker import Act, ScriptedBroker

SHORT_MS = 50


def connect(broker: ScriptedBroker, timeout_ms: float = 10_000) -> Connection:
    return Connection(Address(broker.host, broker.port), request_timeout_ms=timeout_ms)


def test_the_highest_common_version_is_used() -> None:
    with ScriptedBroker() as broker:
        broker.offers[ApiKey.METADATA] = (0, 9)
        connection = connect(broker)
        assert connection.version(ApiKey.METADATA) == 9
        assert connection.version(ApiKey.METADATA, highest=4) == 4
        connection.request(MetadataRequest(topics=None), MetadataResponse)
        assert broker.requests[-1][:2] == (ApiKey.METADATA, 9)
        connection.close()


def test_a_version_newer_than_the_clients_is_not_used() -> None:
    with ScriptedBroker() as broker:
        broker.offers[ApiKey.METADATA] = (99, 120)
        connection = connect(broker)
        with pytest.raises(UnsupportedRequest, match="versions 99 to 120, this client has 0 to 13"):
            connection.request(MetadataRequest(), MetadataResponse)
        connection.close()


def test_a_request_that_the_broker_does_not_offer_is_not_sent() -> None:
    with ScriptedBroker() as broker:
        connection = connect(broker)
        with pytest.raises(UnsupportedRequest, match="DESCRIBE_CLUSTER in versions none"):
            connection.request(DescribeClusterRequest(), DescribeClusterResponse)
        connection.close()


@pytest.mark.parametrize("last", [4, 2, None])
def test_api_versions_falls_back_for_an_older_broker(last: int | None) -> None:
    offered = [] if last is None else [ApiVersion(api_key=18, max_version=last)]
    refused = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=offered)
    with ScriptedBroker() as broker:
        broker.reply(ApiKey.API_VERSIONS, refused)
        connection = connect(broker)
        versions = [version for _, version, _ in broker.requests]
        assert versions == [5, last or 0]
        connection.close()


def test_responses_are_matched_to_requests_in_flight() -> None:
    with ScriptedBroker(first=1, second=2) as broker:
        connection = connect(broker)
        pending = [
            connection.send(MetadataRequest(topics=None), MetadataResponse) for _ in range(3)
        ]
        assert len(connection.wait(pending[2]).topics) == 2
        assert pending[0].response == pending[1].response == pending[2].response
        connection.close()


def test_a_refused_connection_names_the_address() -> None:
    with ScriptedBroker() as broker:
        broker.stop_listening()
        with pytest.raises(NoBrokerReachable, match=f"{broker.port}: Connection refused"):
            connect(broker)


def test_a_peer_that_never_responds_times_out() -> None:
    with ScriptedBroker() as broker:
        connection = connect(broker, SHORT_MS)
        broker.reply(ApiKey.METADATA, Act.SILENCE)
        with pytest.raises(RequestTimedOut, match="did not respond within 50 ms"):
            connection.request(MetadataRequest(), MetadataResponse)
        assert not connection.is_open
        with pytest.raises(ConnectionLost, match="did not respond within"):
            connection.request(MetadataRequest(), MetadataResponse)


def test_a_peer_that_is_silent_from_the_start_times_out() -> None:
    with ScriptedBroker() as broker:
        broker.reply(ApiKey.API_VERSIONS, Act.SILENCE)
        with pytest.raises(RequestTimedOut):
            connect(broker, SHORT_MS)


def test_a_lost_connection_names_the_request_in_flight() -> None:
    with ScriptedBroker() as broker:
        connection = connect(broker)
        broker.reply(ApiKey.METADATA, Act.CLOSE)
        with pytest.raises(ConnectionLost, match="response to METADATA: the broker closed it"):
            connection.request(MetadataRequest(), MetadataResponse)


def test_a_connection_closed_while_idle_is_not_used() -> None:
    with ScriptedBroker() as broker:
        connection = connect(broker)
        assert connection.is_usable
        broker.close_connections()
        while connection.is_usable:
            pass
        assert not connection.is_open


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02ab",
        b"\x00\x00\x00\x08\x00\x00\x00\x63\x00\x00\x00\x00",
    ],
)
def test_a_response_that_is_not_kafkas_protocol_is_reported(garbage: bytes) -> None:
    with ScriptedBroker() as broker:
        broker.reply(ApiKey.API_VERSIONS, garbage)
        with pytest.raises(UnexpectedResponse, match=str(broker.port)):
            connect(broker)
