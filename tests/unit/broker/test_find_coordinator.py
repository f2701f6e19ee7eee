"""FindCoordinator, and access to `__consumer_offsets`, as a client sees them."""

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.list_groups_request import ListGroupsRequest
from sawlog.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from sawlog.simulation.simulated_broker import NODE, SimulatedMachine
from support.broker.groups import commit, machine_with_groups
from support.broker.requests import answers, batch_of, machine_with_topic, produce

OFFSETS = "__consumer_offsets"
TRANSACTIONS, SHARES = 1, 2
T0 = ("t", 0)


@pytest.fixture(scope="module")
def machine() -> SimulatedMachine:
    return machine_with_groups()


# FindCoordinator


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("group", ["g", ""])
def test_coordinator_of_one_group_is_found(
    machine: SimulatedMachine, version: int, group: str
) -> None:
    response = machine.ask(FindCoordinatorRequest(group), version)
    assert (response.error_code, response.node_id) == (0, NODE)
    assert (response.host, response.port) == ("simulated", 9092)
    assert response.error_message == ("NONE" if version else "")


@pytest.mark.parametrize("version", [4, 5, 6])
def test_coordinators_of_several_groups_are_found(machine: SimulatedMachine, version: int) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["g", "", "h", "g"])
    found = machine.ask(request, version).coordinators
    assert [coordinator.key for coordinator in found] == ["g", "", "h", "g"]
    assert {(c.error_code, c.error_message, c.node_id, c.port) for c in found} == {
        (0, "", NODE, 9092)
    }
    assert machine.ask(FindCoordinatorRequest(), version).coordinators == []


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (SHARES, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.INVALID_REQUEST),
        (-1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_unsupported_key_types_get_errors_that_are_not_retried(
    machine: SimulatedMachine, kind: int, code: ErrorCode
) -> None:
    old = machine.ask(FindCoordinatorRequest("k", kind), 3)
    assert (old.error_code, old.node_id, old.host, old.port) == (code, -1, "", -1)
    assert old.error_message
    assert not code.name.startswith("COORDINATOR")
    [new] = machine.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["k"])).coordinators
    assert (new.key, new.error_code, new.node_id, new.host, new.port) == ("k", code, -1, "", -1)


def test_the_coordinator_of_a_transactional_id_is_found(machine: SimulatedMachine) -> None:
    message = FindCoordinatorRequest(key_type=TRANSACTIONS, coordinator_keys=["k"])
    [first] = machine.ask(message).coordinators
    assert first.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    machine.schedule.run_for(500)
    [found] = machine.ask(message).coordinators
    assert (found.error_code, found.key) == (0, "k")
    assert found.node_id == machine.broker.components.node_id
    topic = machine.broker.metadata.image.topics["__transaction_state"]
    assert len(topic.partitions) == 50
    assert topic.configs["cleanup.policy"] == "compact"
    assert topic.configs["min.insync.replicas"] == "1"  # it has one replica


def test_first_find_coordinator_creates_the_offsets_topic() -> None:
    machine = machine_with_topic(1)
    request = FindCoordinatorRequest("g")
    assert machine.ask(request, 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    machine.schedule.run_for(1_000)
    assert machine.ask(request, 3).error_code == 0
    topic = machine.broker.metadata.image.topics[OFFSETS]
    assert len(topic.partitions) == 50
    assert topic.configs["cleanup.policy"] == "compact"


def test_metadata_request_does_not_create_the_offsets_topic() -> None:
    machine = machine_with_topic(1)
    machine.ask(ListGroupsRequest())
    commit(machine, "g", {T0: 1})
    machine.schedule.run_for(1_000)
    assert OFFSETS not in machine.broker.metadata.image.topics


# The topic


def test_offsets_topic_is_internal_in_metadata(machine: SimulatedMachine) -> None:
    request = MetadataRequest([MetadataRequestTopic(name=OFFSETS), MetadataRequestTopic(name="t")])
    topics = machine.ask(request, 12).topics
    assert {topic.name: topic.is_internal for topic in topics} == {OFFSETS: True, "t": False}


@pytest.mark.parametrize("version", [3, 12, 13])
def test_produce_to_the_offsets_topic_is_rejected(machine: SimulatedMachine, version: int) -> None:
    request = produce(batch_of(machine, b"x"), topic=OFFSETS)
    request.topic_data[0].topic_id = machine.broker.metadata.image.topics[OFFSETS].id
    before = machine.broker.replicas.by_partition[OFFSETS, 0].log.end_offset
    response = machine.ask(request, version)
    assert answers(response) == [(ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]
    assert response.responses[0].partition_responses[0].log_start_offset == -1
    assert machine.broker.replicas.by_partition[OFFSETS, 0].log.end_offset == before


def test_admin_client_id_may_produce_to_the_offsets_topic() -> None:
    machine = machine_with_groups()
    request = produce(batch_of(machine, b"x"), topic=OFFSETS)
    call = machine.send(request, 12, client_id="__admin_client")
    assert machine.schedule.run(lambda: call.is_done)
    assert answers(call.answered) == [(0, 0)]


def test_produce_without_acks_to_the_offsets_topic_closes_the_connection(
    machine: SimulatedMachine,
) -> None:
    call = machine.send(produce(batch_of(machine, b"x"), acks=0, topic=OFFSETS), 12)
    assert call.closed is not None


def test_deleting_the_offsets_topic_deletes_all_groups() -> None:
    machine = machine_with_groups()
    commit(machine, "g", {T0: 1})
    request = DeleteTopicsRequest(topic_names=[OFFSETS], timeout_ms=10_000)
    assert machine.ask(request, 5).responses[0].error_code == 0
    assert commit(machine, "g", {T0: 1}) == {T0: ErrorCode.NOT_COORDINATOR}
    machine.ask(FindCoordinatorRequest("g"), 3)
    machine.schedule.run_for(1_000)
    assert machine.ask(ListGroupsRequest()).groups == []
    assert commit(machine, "g", {T0: 2}) == {T0: 0}
