"""The contract of the Peers port: on real sockets, and on the simulated network."""

from collections.abc import Iterator

import pytest

from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.metadata_response import MetadataResponse
from sawlog.protocol.messages.produce_request import ProduceRequest
from sawlog.protocol.peers import PeerError
from sawlog.protocol.schema import Message
from support.protocol.peers import HARNESSES, PeersHarness, Results, question

LONG_MS = 30_000


@pytest.fixture(params=sorted(HARNESSES))
def harness(request: pytest.FixtureRequest) -> Iterator[PeersHarness]:
    harness = HARNESSES[request.param]()
    yield harness
    harness.close()


@pytest.fixture
def results() -> Results:
    return Results()


def test_a_request_gets_its_response(harness: PeersHarness, results: Results) -> None:
    connection = harness.peers.connect(*harness.address)
    connection.send(question("a"), results.done, timeout_ms=LONG_MS)
    assert results.all == []
    assert harness.drive(lambda: bool(results.all))
    assert results.all == ["a"]
    connection.send(question("b"), results.done, timeout_ms=LONG_MS)
    assert results.all == ["a"]  # not from inside the call, on an open connection either
    assert harness.drive(lambda: len(results.all) == 2)
    connection.close()


def test_concurrent_requests_are_answered_in_their_order(
    harness: PeersHarness, results: Results
) -> None:
    connection = harness.peers.connect(*harness.address)
    for name in ("hold", "a", "hold", "b"):
        connection.send(question(name), results.done, timeout_ms=LONG_MS)
    assert harness.drive(lambda: len(harness.peer.seen) == 5)
    assert results.all == []
    harness.peer.release()  # the last one first
    assert harness.drive(lambda: len(results.all) == 4)
    assert results.all == ["held", "a", "held", "b"]
    connection.close()


def test_connections_do_not_delay_each_other(harness: PeersHarness, results: Results) -> None:
    slow, quick = (harness.peers.connect(*harness.address) for _ in range(2))
    slow.send(question("hold"), results.done, timeout_ms=LONG_MS)
    assert harness.drive(lambda: bool(harness.peer.held))
    quick.send(question("a"), results.done, timeout_ms=LONG_MS)
    assert harness.drive(lambda: bool(results.all))
    assert results.all == ["a"]
    slow.close()
    quick.close()


def test_a_large_response_is_received_whole(harness: PeersHarness, results: Results) -> None:
    connection = harness.peers.connect(*harness.address)
    names = [letter * 30_000 for letter in "abcdefgh"]
    for name in names:
        connection.send(question(name), results.done, timeout_ms=LONG_MS)
    assert harness.drive(lambda: len(results.all) == len(names))
    assert results.all == names
    connection.close()


def test_an_unreachable_address_fails_the_request(harness: PeersHarness, results: Results) -> None:
    connection = harness.peers.connect(*harness.unreachable)
    connection.send(question("a"), results.done, timeout_ms=LONG_MS)
    connection.send(question("b"), results.done, timeout_ms=LONG_MS)
    assert results.all == []
    assert harness.drive(lambda: len(results.all) == 2)
    assert results.all == [PeerError, PeerError]
    assert "refused" in results.reasons[0]


def test_a_close_by_the_peer_fails_all_pending_requests_once_and_the_next_one_reconnects(
    harness: PeersHarness, results: Results
) -> None:
    connection = harness.peers.connect(*harness.address)
    for name in ("a", "close", "hold", "hold"):
        connection.send(question(name), results.done, timeout_ms=LONG_MS)
    assert harness.drive(lambda: len(results.all) == 4)
    assert results.all == ["a", PeerError, PeerError, PeerError]
    connection.send(question("b"), results.done, timeout_ms=LONG_MS)
    assert harness.drive(lambda: len(results.all) == 5)
    assert results.all[4] == "b"
    connection.close()


def test_a_request_sent_while_another_one_fails_reconnects(
    harness: PeersHarness, results: Results
) -> None:
    connection = harness.peers.connect(*harness.address)

    def again(result: Message | PeerError) -> None:
        results.done(result)
        connection.send(question("again"), results.done, timeout_ms=LONG_MS)

    connection.send(question("close"), again, timeout_ms=LONG_MS)
    assert harness.drive(lambda: len(results.all) == 2)
    assert results.all == [PeerError, "again"]
    connection.close()


def test_a_request_without_a_response_times_out_and_ends_the_connection(
    harness: PeersHarness, results: Results
) -> None:
    connection = harness.peers.connect(*harness.address)
    connection.send(question("hold"), results.done, timeout_ms=100)
    connection.send(question("b"), results.done, timeout_ms=LONG_MS)
    assert harness.drive(lambda: len(results.all) == 2)
    assert results.all == [PeerError, PeerError]
    assert "no response to METADATA within 100 ms" in results.reasons[0]
    harness.peer.release()  # too late
    assert harness.drive(lambda: not harness.peer.clients)
    connection.send(question("c"), results.done, timeout_ms=LONG_MS)
    assert harness.drive(lambda: len(results.all) == 3)
    assert results.all[2] == "c"
    connection.close()


def test_close_fails_pending_and_later_requests(harness: PeersHarness, results: Results) -> None:
    connection = harness.peers.connect(*harness.address)
    connection.send(question("hold"), results.done, timeout_ms=LONG_MS)
    assert harness.drive(lambda: bool(harness.peer.held))
    connection.close()
    connection.close()
    connection.send(question("a"), results.done, timeout_ms=LONG_MS)
    assert results.all == []
    harness.peer.release()  # too late
    assert harness.drive(lambda: len(results.all) == 2 and not harness.peer.clients)
    assert results.all == [PeerError, PeerError]


def test_close_while_connecting_fails_the_request(harness: PeersHarness, results: Results) -> None:
    connection = harness.peers.connect(*harness.address)
    connection.send(question("a"), results.done, timeout_ms=LONG_MS)
    connection.close()
    assert harness.drive(lambda: bool(results.all))
    assert results.all == [PeerError]


def test_versions_are_negotiated_with_an_older_peer(
    harness: PeersHarness, results: Results
) -> None:
    harness.peer.versions = {ApiKey.API_VERSIONS: (0, 2), ApiKey.METADATA: (0, 9)}
    connection = harness.peers.connect(*harness.address)
    connection.send(question("a"), results.done, timeout_ms=LONG_MS)
    assert harness.drive(lambda: bool(results.all))
    assert results.all == ["a"]
    assert harness.peer.seen[1:] == [(ApiKey.API_VERSIONS, 2), (ApiKey.METADATA, 9)]
    connection.close()


def test_an_api_that_the_peer_lacks_fails_only_its_own_request(
    harness: PeersHarness, results: Results
) -> None:
    connection = harness.peers.connect(*harness.address)
    connection.send(ProduceRequest(), results.done, timeout_ms=LONG_MS)
    connection.send(question("a"), results.done, timeout_ms=LONG_MS)
    assert harness.drive(lambda: len(results.all) == 2)
    assert sorted(map(str, results.all)) == sorted(map(str, [PeerError, "a"]))
    assert "PRODUCE" in results.reasons[0]
    connection.close()


def test_a_response_is_a_decoded_message(harness: PeersHarness) -> None:
    responses: list[Message | PeerError] = []
    connection = harness.peers.connect(*harness.address)
    connection.send(question("a"), responses.append, timeout_ms=LONG_MS)
    assert harness.drive(lambda: bool(responses))
    assert responses == [MetadataResponse(cluster_id="a")]
    connection.close()
