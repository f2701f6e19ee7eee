"""The simulator bites: each test plants a bug in the broker, and a run finds it.

`tests/support/simulation/planted_*bugs.py` have the bugs, each with the faults that provoke it, the
seed that finds it first, and the guarantee that the report must name.
"""

import pytest

from sawlog.simulation.world.simulation import RunResult, Simulation, SimulationOptions
from support.simulation import (  # they fill BUGS
    planted_bugs,
    planted_topic_bugs,
    planted_transaction_bugs,
)
from support.simulation.planted_bug import BUGS, PlantedBug

assert planted_bugs
assert planted_topic_bugs
assert planted_transaction_bugs
ATTEMPTS = 8
SOAK_SEEDS = 40
EVERY_BUG = pytest.mark.parametrize("bug", BUGS.values(), ids=list(BUGS))


def run(bug: PlantedBug, seed: int) -> RunResult:
    options = SimulationOptions(brokers=3, duration_ms=bug.duration_ms, profile=bug.profile)
    return Simulation(seed, options, bug.faults).run()


@pytest.mark.long
@EVERY_BUG
def test_a_planted_bug_is_found(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first seed finds it nearly always; a change of the broker may shift the moments that
    matter to another one."""
    bug.plant(monkeypatch)
    others = []
    for seed in range(bug.seed, bug.seed + ATTEMPTS):
        violation = run(bug, seed).violation
        if bug.is_found(violation):
            return
        others.append(str(violation))
    pytest.fail(f"not found with {ATTEMPTS} seeds: {others}")


@pytest.mark.long
@EVERY_BUG
def test_the_same_seed_passes_without_the_bug(bug: PlantedBug) -> None:
    result = run(bug, bug.seed)
    assert result.violation is None, "\n".join([str(result.violation), *result.story[-40:]])


@pytest.mark.soak
@EVERY_BUG
def test_a_planted_bug_is_found_within_a_few_seeds(
    bug: PlantedBug, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other seeds than the known one find it too."""
    bug.plant(monkeypatch)
    for seed in range(bug.seed + 1, bug.seed + 1 + SOAK_SEEDS):
        violation = run(bug, seed).violation
        if bug.is_found(violation):
            return
    pytest.fail(f"not found with {SOAK_SEEDS} other seeds")


@pytest.mark.soak
@EVERY_BUG
def test_other_seeds_pass_without_the_bug(bug: PlantedBug) -> None:
    for seed in range(SOAK_SEEDS):
        result = run(bug, seed)
        assert result.violation is None, "\n".join([str(result.violation), *result.story[-40:]])
