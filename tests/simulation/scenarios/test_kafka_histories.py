"""Histories that ended badly in Kafka on ZooKeeper, replayed as faults; here they end well."""

import pytest

from sawlog.core.ids import NodeId
from sawlog.simulation.world.faults import Fault, FaultKind
from sawlog.simulation.world.simulation import Simulation, SimulationOptions

OPTIONS = SimulationOptions(brokers=3, duration_ms=14_000)
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)

HISTORIES = {
    # A controller sleeps through its session and wakes up with writes in hand.
    "KAFKA-6082": [Fault(1_000, FaultKind.PAUSE, node, 8_000) for node in (ONE, TWO, THREE)],
    # A broker that lost its data restarts within its session.
    "KAFKA-14617": [Fault(2_000, FaultKind.EMPTY_DISK, TWO, 50)],
    # The answer to a conditional write is lost with the connection.
    "KAFKA-1382": [
        Fault(1_000 + place * 400, FaultKind.SUSPENDED_SESSION, NodeId(place % 3 + 1), 300)
        for place in range(20)
    ]
    + [Fault(1_500, FaultKind.KILL, TWO, 3_000), Fault(6_500, FaultKind.KILL, THREE, 3_000)],
    # A broker's own old ephemeral node blocks its registration.
    "KAFKA-7165": [
        Fault(1_000 + place * 1_500, FaultKind.KILL, NodeId(place % 3 + 1), 50)
        for place in range(6)
    ],
    # The session has expired, and for a while the store gives no new one.
    "KAFKA-5473": [
        Fault(1_000, FaultKind.EXPIRED_SESSION, ONE, 50),
        Fault(1_000, FaultKind.STORE_DOWN, ONE, 8_000),
        Fault(1_020, FaultKind.EXPIRED_SESSION, TWO, 50),
    ],
    # A follower is cut off; the watermark has to advance after it left the in-sync set.
    "KAFKA-13091": [Fault(1_000, FaultKind.CUT_TWO_WAY, ONE, 8_000, 2)],
    # Leaders change quickly while logs diverge.
    "KIP-279": [
        Fault(1_000 + place * 600, FaultKind.POWER_LOSS, NodeId(place % 3 + 1), 50)
        for place in range(18)
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("history", HISTORIES)
def test_the_history_ends_well(history: str) -> None:
    result = Simulation(7, OPTIONS, HISTORIES[history]).run()
    assert result.faults > 0
    assert result.violation is None, "\n".join([str(result.violation), *result.story[-40:]])


@pytest.mark.soak
@pytest.mark.parametrize("history", HISTORIES)
def test_the_history_ends_well_under_many_seeds(history: str) -> None:
    for seed in range(100):
        result = Simulation(seed, OPTIONS, HISTORIES[history]).run()
        assert result.violation is None, "\n".join([str(result.violation), *result.story[-40:]])
