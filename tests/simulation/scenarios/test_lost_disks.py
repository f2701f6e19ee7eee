"""Disks that are lost: which losses the guarantees cover, and which the injector must not cause.
Members that restart within their sessions stay in sync, so those faults are covered.

Seed 148 (three brokers, 15 seconds) has shown the limit: broker 1 was killed and its disk emptied,
and before its session ended, brokers 2 and 3 were stopped cleanly and so left the in-sync set. Its
last member was broker 1, whose records are gone, and by guarantee 16 the partition stays offline.
"""

import pytest

from sawlog.core.ids import NodeId
from sawlog.simulation.cluster_profile import ClusterProfile
from sawlog.simulation.world.faults import Fault, FaultKind
from sawlog.simulation.world.simulation import RunResult, Simulation, SimulationOptions

OPTIONS = SimulationOptions(brokers=3, duration_ms=15_000, profile=ClusterProfile())
LOST = "broker 1 gets an empty disk"


def run(faults: list[Fault]) -> RunResult:
    result = Simulation(3, OPTIONS, faults).run()
    assert result.violation is None, "\n".join([str(result.violation), *result.story[-30:]])
    return result


def fault(at_ms: int, kind: FaultKind, node: int, duration_ms: int) -> Fault:
    return Fault(at_ms, kind, NodeId(node), duration_ms)


@pytest.mark.long
def test_a_disk_is_lost_while_other_brokers_are_down() -> None:
    """Brokers 1 and 2 lead and follow in sync; broker 3 has left all in-sync sets."""
    result = run(
        [
            fault(500, FaultKind.KILL, 3, 14_000),
            fault(9_000, FaultKind.EMPTY_DISK, 1, 50),
        ]
    )
    assert any(LOST in line for line in result.story)


@pytest.mark.long
def test_the_disk_of_the_last_in_sync_member_is_not_lost() -> None:
    result = run(
        [
            fault(500, FaultKind.KILL, 2, 14_000),
            fault(500, FaultKind.KILL, 3, 14_000),
            fault(9_000, FaultKind.EMPTY_DISK, 1, 50),
        ]
    )
    assert not any(LOST in line for line in result.story)


@pytest.mark.long
def test_no_other_member_leaves_before_the_lost_one() -> None:
    """Seed 148: the clean stops begin only when no in-sync set has the lost directory."""
    result = run(
        [
            fault(543, FaultKind.EMPTY_DISK, 1, 50),
            fault(700, FaultKind.STOP, 2, 8_000),
            fault(720, FaultKind.STOP, 3, 8_000),
            fault(9_000, FaultKind.STOP, 2, 300),
        ]
    )
    assert any(LOST in line for line in result.story)
    assert [line.split("fault: ")[1] for line in result.story if "fault: clean" in line] == [
        "clean stop of broker 2 for 300 ms"
    ]


@pytest.mark.long
def test_members_restart_while_a_set_has_the_lost_directory() -> None:
    result = run(
        [
            fault(543, FaultKind.EMPTY_DISK, 1, 50),
            fault(700, FaultKind.POWER_LOSS, 2, 300),
            fault(720, FaultKind.KILL, 3, 50),
            fault(1_500, FaultKind.POWER_LOSS, 2, 50),
            fault(2_500, FaultKind.KILL, 3, 3_000),
        ]
    )
    assert any(LOST in line for line in result.story)
    assert [line.split("fault: ")[1] for line in result.story if "fault: " in line] == [
        "empty disk of broker 1 for 50 ms",
        "power loss of broker 2 for 300 ms",
        "kill of broker 3 for 50 ms",
        "power loss of broker 2 for 50 ms",
    ]
