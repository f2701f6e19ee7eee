"""The story of a failed run: as few faults as possible, and the lines that matter."""

import pytest

from sawlog.core.ids import NodeId
from sawlog.simulation.invariants.violation import Violation
from sawlog.simulation.world import story
from sawlog.simulation.world.faults import Fault, FaultKind
from sawlog.simulation.world.simulation import RunResult, SimulationOptions
from sawlog.simulation.world.story import STORY_LINES, last_lines, partition_of, shrink

OPTIONS = SimulationOptions()
PLAN = [Fault(1_000 * place, FaultKind.KILL, NodeId(1), 50) for place in range(16)]


def result(violation: Violation | None, lines: list[str] | None = None) -> RunResult:
    return RunResult(7, violation, 0, 0, 0, 0, 0, 0, lines or [])


class BrokenByFaults:
    """Stands for Simulation: `guilty` faults together break guarantee 2; others break 9."""

    guilty = frozenset(PLAN[3:4] + PLAN[12:13])
    runs = 0

    def __init__(
        self, seed: int, options: SimulationOptions, faults: list[Fault] | None = None
    ) -> None:
        assert (seed, options) == (7, OPTIONS)
        self.faults = PLAN if faults is None else faults

    def run(self) -> RunResult:
        type(self).runs += 1
        if self.guilty <= set(self.faults):
            return result(Violation("2", f"with {len(self.faults)} faults"))
        return result(Violation("9", "another one") if self.faults else None)


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> type[BrokenByFaults]:
    monkeypatch.setattr(story, "Simulation", BrokenByFaults)
    monkeypatch.setattr(BrokenByFaults, "runs", 0)
    return BrokenByFaults


FAILED = result(Violation("2", "with all faults"))


def test_only_the_faults_that_break_the_same_guarantee_are_left(
    simulation: type[BrokenByFaults],
) -> None:
    told: list[str] = []
    best, faults = shrink(7, OPTIONS, FAILED, told.append)
    assert set(faults) == simulation.guilty
    assert str(best.violation) == "guarantee 2: with 2 faults"
    assert told[-1] == "still fails with 2 faults"


def test_the_number_of_runs_is_bounded(simulation: type[BrokenByFaults]) -> None:
    best, faults = shrink(7, OPTIONS, FAILED, lambda _: None, max_runs=3)
    assert simulation.runs == 3
    assert simulation.guilty <= set(faults)
    assert best.violation is not None


def test_a_failure_that_needs_all_faults_keeps_the_first_run(
    simulation: type[BrokenByFaults], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "guilty", frozenset(PLAN))
    assert shrink(7, OPTIONS, FAILED, lambda _: None) == (FAILED, PLAN)


def test_a_failure_without_faults_has_none_in_its_story(
    simulation: type[BrokenByFaults], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "guilty", frozenset())
    _, faults = shrink(7, OPTIONS, FAILED, lambda _: None)
    assert faults == []


LINES = [
    "    0.100  broker 1 starts",
    "    0.200  simulated-0: leader 1 epoch 0 in-sync [1, 2]",
    "    0.300  simulated-1 on broker 2: truncated from 4 to 2",
    "    0.400  fault: kill of broker 1 for 50 ms",
]


def test_lines_about_other_partitions_are_left_out() -> None:
    failed = result(Violation("2", "..."), LINES)
    assert last_lines(failed, "simulated-0") == [LINES[0], LINES[1], LINES[3]]
    assert last_lines(failed) == LINES


def test_only_the_last_lines_are_told() -> None:
    lines = [f"    0.{number:03}  broker 1 starts" for number in range(100)]
    assert last_lines(result(None, lines)) == lines[-STORY_LINES:]


@pytest.mark.parametrize(
    ("text", "partition"),
    [
        ("simulated-2 on broker 1: truncated to 3", "simulated-2"),
        ("__consumer_offsets-0: broker 2 was elected", "__consumer_offsets-0"),
        ("broker-1 does not answer", None),
        ("no event is left", None),
    ],
)
def test_the_partition_of_a_violation_is_the_first_that_it_names(
    text: str, partition: str | None
) -> None:
    assert partition_of(result(Violation("2", text))) == partition
