"""Seeds of whole clusters under faults: no guarantee breaks, and all is well again afterwards."""

import pytest

from sawlog.simulation.world.simulation import Simulation, SimulationOptions

FAST_SEEDS = range(3)
LONG_SEEDS = range(3, 33)
SOAK_SEEDS = range(33, 3_000)
SOLE_REPLICAS = SimulationOptions(brokers=3, duration_ms=10_000, replication_factor=1)


def check(seed: int, options: SimulationOptions) -> None:
    result = Simulation(seed, options).run()
    assert result.violation is None, "\n".join([str(result.violation), *result.story[-40:]])


@pytest.mark.parametrize("seed", FAST_SEEDS)
def test_sole_replicas_keep_their_guarantees(seed: int) -> None:
    check(seed, SOLE_REPLICAS)


@pytest.mark.long
def test_sole_replicas_keep_their_guarantees_under_more_seeds() -> None:
    for seed in LONG_SEEDS:
        check(seed, SOLE_REPLICAS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", SOAK_SEEDS)
def test_sole_replicas_keep_their_guarantees_under_many_seeds(seed: int) -> None:
    check(seed, SOLE_REPLICAS)
