"""ApiVersions 5: the cluster and the node that a client expects (KIP-1242).

The rules are those of Kafka 4.4.0: its `ApiVersionsRequest.isValid` refuses one without the other.
"""

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.api_versions_request import ApiVersionsRequest
from sawlog.protocol.messages.api_versions_response import ApiVersionsResponse
from sawlog.protocol.messages.metadata_request import MetadataRequest
from sawlog.simulation.simulated_broker import NODE, SimulatedMachine

OTHER_CLUSTER = "another-cluster"


@pytest.fixture(scope="module")
def machine() -> SimulatedMachine:
    machine = SimulatedMachine(1)
    machine.boot()
    return machine


def ask(
    machine: SimulatedMachine, cluster_id: str | None, node_id: int, version: int = 5
) -> ApiVersionsResponse:
    request = ApiVersionsRequest("script", "1.0", cluster_id, node_id)
    response: ApiVersionsResponse = machine.ask(request, version)
    return response


def cluster_of(machine: SimulatedMachine) -> str:
    cluster_id: str = machine.ask(MetadataRequest(topics=[])).cluster_id
    assert cluster_id
    return cluster_id


def test_expected_broker_answers(machine: SimulatedMachine) -> None:
    response = ask(machine, cluster_of(machine), NODE)
    assert response.error_code == ErrorCode.NONE
    assert response.api_keys


def test_client_without_expectations_is_answered(machine: SimulatedMachine) -> None:
    assert ask(machine, None, -1).error_code == ErrorCode.NONE


@pytest.mark.parametrize("node_id", [NODE, NODE + 1])
def test_client_of_another_cluster_is_told_to_bootstrap_again(
    machine: SimulatedMachine, node_id: int
) -> None:
    for cluster_id in (OTHER_CLUSTER, ""):
        response = ask(machine, cluster_id, node_id)
        assert response == ApiVersionsResponse(error_code=int(ErrorCode.REBOOTSTRAP_REQUIRED))


def test_client_of_another_node_is_told_to_bootstrap_again(machine: SimulatedMachine) -> None:
    response = ask(machine, cluster_of(machine), NODE + 1)
    assert response == ApiVersionsResponse(error_code=int(ErrorCode.REBOOTSTRAP_REQUIRED))


@pytest.mark.parametrize(("cluster_id", "node_id"), [(OTHER_CLUSTER, -1), ("", -1), (None, NODE)])
def test_cluster_without_node_and_node_without_cluster_are_invalid(
    machine: SimulatedMachine, cluster_id: str | None, node_id: int
) -> None:
    response = ask(machine, cluster_id, node_id)
    assert response == ApiVersionsResponse(error_code=int(ErrorCode.INVALID_REQUEST))


def test_version_4_does_not_name_a_broker(machine: SimulatedMachine) -> None:
    assert ask(machine, OTHER_CLUSTER, NODE + 1, version=4).error_code == ErrorCode.NONE
