"""DescribeCluster, as a client sees it."""

import pytest

from sawlog.protocol.messages.describe_cluster_request import DescribeClusterRequest
from sawlog.simulation.simulated_broker import NODE, SimulatedMachine


@pytest.fixture(scope="module")
def machine() -> SimulatedMachine:
    machine = SimulatedMachine(1)
    machine.boot()
    return machine


@pytest.mark.parametrize("version", [0, 1, 2])
def test_brokers_and_controller_are_told(machine: SimulatedMachine, version: int) -> None:
    response = machine.ask(DescribeClusterRequest(), version)
    assert response.error_code == 0
    assert [(b.broker_id, b.host, b.is_fenced) for b in response.brokers] == [
        (NODE, "simulated", False)
    ]
    assert response.controller_id == NODE
    assert response.cluster_id == machine.broker.metadata.image.cluster_id
    assert response.cluster_authorized_operations == -(1 << 31)


def test_operations_are_told_when_asked_for(machine: SimulatedMachine) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert machine.ask(request).cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("endpoint_type", "code", "words"),
    [
        (2, 114, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint"),
        (7, 115, "Unsupported endpoint type 7"),
    ],
)
def test_only_brokers_are_described(
    machine: SimulatedMachine, endpoint_type: int, code: int, words: str
) -> None:
    response = machine.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert response.error_code == code
    assert response.error_message.startswith(words)
    assert response.brokers == []
