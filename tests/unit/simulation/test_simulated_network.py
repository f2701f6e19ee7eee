"""Faults of the simulated network, and a broker on it."""

import pytest

from sawlog.protocol.messages.metadata_request import MetadataRequest
from sawlog.protocol.peers import PeerConnection, PeerError
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_broker import SimulatedMachine
from sawlog.simulation.simulated_network import NetworkFaults, SimulatedNetwork
from support.broker.requests import batch_of, fetch, machine_with_topic, produce, values
from support.protocol.peers import PeersOnSimulatedNetwork, Results, question

SECOND_MS = 1_000


@pytest.fixture
def world() -> PeersOnSimulatedNetwork:
    return PeersOnSimulatedNetwork()


@pytest.fixture
def results() -> Results:
    return Results()


def connected(world: PeersOnSimulatedNetwork) -> PeerConnection:
    """Return a connection on which one request was answered."""
    connection = world.peers.connect(*world.address)
    first = Results()
    connection.send(question("first"), first.done, timeout_ms=SECOND_MS)
    assert world.drive(lambda: first.all == ["first"])
    return connection


@pytest.mark.parametrize(("source", "target"), [("here", "there"), ("there", "here")])
def test_frames_wait_for_the_end_of_a_one_way_cut(
    world: PeersOnSimulatedNetwork, results: Results, source: str, target: str
) -> None:
    connection = connected(world)
    world.network.cut_one_way(source, target)
    connection.send(question("a"), results.done, timeout_ms=60 * SECOND_MS)
    connection.send(question("b"), results.done, timeout_ms=60 * SECOND_MS)
    world.schedule.run_for(5 * SECOND_MS)
    assert results.all == []
    assert (len(world.peer.seen) == 4) == (source == "there")  # else no request has arrived
    world.network.heal()
    world.schedule.run_for(SECOND_MS)
    assert results.all == ["a", "b"]


def test_a_cut_connection_is_lost_when_the_sender_gives_up(
    world: PeersOnSimulatedNetwork, results: Results
) -> None:
    connection = connected(world)
    world.network.cut("here", "there")
    connection.send(question("a"), results.done, timeout_ms=600 * SECOND_MS)
    world.schedule.run_for(61 * SECOND_MS)
    assert results.all == [PeerError]
    assert len(world.peer.clients) == 1  # the other end does not know it


def test_a_clogged_connection_delivers_late(
    world: PeersOnSimulatedNetwork, results: Results
) -> None:
    connection = connected(world)
    world.network.clog("here", "there", 3 * SECOND_MS)
    connection.send(question("a"), results.done, timeout_ms=60 * SECOND_MS)
    world.schedule.run_for(2 * SECOND_MS)
    assert results.all == []
    world.schedule.run_for(2 * SECOND_MS)
    assert results.all == ["a"]


def test_a_broken_connection_fails_at_both_ends(
    world: PeersOnSimulatedNetwork, results: Results
) -> None:
    connection = connected(world)
    connection.send(question("hold"), results.done, timeout_ms=60 * SECOND_MS)
    world.schedule.run_for(100)
    world.network.break_connections("here", "there")
    world.schedule.run_for(0)
    assert results.all == [PeerError]
    assert world.peer.clients == []


def test_a_half_open_connection_is_noticed_by_the_next_frame(
    world: PeersOnSimulatedNetwork, results: Results
) -> None:
    connection = connected(world)
    connection.send(question("hold"), results.done, timeout_ms=60 * SECOND_MS)
    world.schedule.run_for(100)
    world.network.break_connections("here", "there", known_to="there")
    world.schedule.run_for(SECOND_MS)
    assert world.peer.clients == []
    assert results.all == []
    connection.send(question("a"), results.done, timeout_ms=60 * SECOND_MS)
    world.schedule.run_for(SECOND_MS)
    assert results.all == [PeerError, PeerError]


def test_a_killed_process_resets_its_connections_and_refuses_new_ones(
    world: PeersOnSimulatedNetwork, results: Results
) -> None:
    connection = connected(world)
    connection.send(question("hold"), results.done, timeout_ms=60 * SECOND_MS)
    world.schedule.run_for(100)
    world.network.crash("there")
    world.schedule.run_for(100)
    assert results.all == [PeerError]
    connection.send(question("a"), results.done, timeout_ms=60 * SECOND_MS)
    world.schedule.run_for(100)
    assert results.all == [PeerError, PeerError]
    assert "refused" in results.reasons[1]
    world.network.listen("there", 9092, world.peer)
    connection.send(question("b"), results.done, timeout_ms=60 * SECOND_MS)
    world.schedule.run_for(100)
    assert results.all[2] == "b"


def test_a_host_without_power_is_silent_and_resets_when_it_is_back(
    world: PeersOnSimulatedNetwork, results: Results
) -> None:
    connection = connected(world)
    world.network.crash("there", silently=True)
    connection.send(question("a"), results.done, timeout_ms=60 * SECOND_MS)
    world.schedule.run_for(10 * SECOND_MS)
    assert results.all == []
    world.network.listen("there", 9092, world.peer)
    world.schedule.run_for(100)
    assert results.all == [PeerError]
    assert "reset" in results.reasons[0]


def test_a_paused_peer_does_not_refuse_and_answers_after_it_resumes(
    world: PeersOnSimulatedNetwork, results: Results
) -> None:
    open_one, new_one = connected(world), world.peers.connect(*world.address)
    world.peer_scope.pause()
    for name in ("a", "b", "c"):
        open_one.send(question(name), results.done, timeout_ms=60 * SECOND_MS)
    new_one.send(question("new"), results.done, timeout_ms=60 * SECOND_MS)
    world.schedule.run_for(5 * SECOND_MS)
    assert results.all == []
    world.peer_scope.resume()
    world.schedule.run_for(100)
    assert [each for each in results.all if each != "new"] == ["a", "b", "c"]
    assert "new" in results.all


def test_a_dead_sender_is_not_called_back(world: PeersOnSimulatedNetwork, results: Results) -> None:
    connected(world).send(question("a"), results.done, timeout_ms=SECOND_MS)
    world.scope.close()
    world.schedule.run_for(10 * SECOND_MS)
    assert results.all == []
    assert world.peer.clients == []  # the response was answered with a reset


@pytest.mark.parametrize("seed", range(5))
def test_random_faults_end_every_request_exactly_once_and_in_order(seed: int) -> None:
    world = PeersOnSimulatedNetwork(seed)
    world.network.faults = NetworkFaults(breaks=0.02, half_open=0.5, clogs=0.05, clog_ms=200)
    connections = [world.peers.connect(*world.address) for _ in range(3)]
    collected = [Results() for _ in connections]
    for number in range(60):
        for connection, results in zip(connections, collected, strict=True):
            connection.send(question(str(number)), results.done, timeout_ms=2 * SECOND_MS)
        world.schedule.run_for(20)
    world.schedule.run_for(20 * SECOND_MS)
    for results in collected:
        assert len(results.all) == 60
        assert [each for each in enumerate(results.all) if each[1] is not PeerError] == [
            (number, str(number))
            for number, each in enumerate(results.all)
            if each is not PeerError
        ]
    assert any(results.reasons for results in collected)


def test_a_client_produces_to_and_fetches_from_a_broker_over_the_network() -> None:
    machine: SimulatedMachine = machine_with_topic()
    network = SimulatedNetwork(machine.schedule, 1)
    network.listen("broker", 9092, machine.broker, machine.scope)
    client = network.client("laptop", "broker", 9092)
    produced = client.send(produce(batch_of(machine, b"x", b"y")), highest_version=12)
    assert machine.schedule.run(lambda: produced.is_done)
    fetched = client.send(fetch(0), highest_version=12)
    assert machine.schedule.run(lambda: fetched.is_done)
    assert values(fetched.answered) == [[b"x", b"y"]]
    waiting = client.send(fetch(2, max_wait_ms=60_000), highest_version=12, timeout_ms=90_000)
    machine.schedule.run_for(100)
    assert len(machine.broker.purgatory) == 1
    client.close()
    machine.schedule.run_for(100)
    assert len(machine.broker.purgatory) == 0
    assert isinstance(waiting.failed, PeerError)


def test_equal_seeds_give_equal_histories() -> None:
    def history(seed: int) -> list[object]:
        schedule = Schedule(3)
        network = SimulatedNetwork(schedule, seed)
        machine = SimulatedMachine(3, schedule=schedule)
        machine.boot()
        network.listen("broker", 9092, machine.broker, machine.scope)
        start_ms = schedule.monotonic_ms()
        calls = [network.client("c", "broker", 9092).send(MetadataRequest([])) for _ in range(5)]
        seen: list[object] = []
        while not all(call.is_done for call in calls):
            schedule.step()
            seen.append((schedule.monotonic_ms() - start_ms, [call.is_done for call in calls]))
        return seen

    assert history(1) == history(1)
    assert history(1) != history(2)
