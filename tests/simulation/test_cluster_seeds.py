"""Seeds of whole clusters under faults: no guarantee breaks, and all is well again afterwards.

Seed 2 has a compacted topic, seed 3 `flush.policy=os`, retention and a classic group.
"""

import pytest

from sawlog.simulation.world.simulation import Simulation, SimulationOptions

REPLICATED = SimulationOptions(brokers=3, duration_ms=8_000)
FIVE_BROKERS = SimulationOptions(brokers=5, duration_ms=8_000)
SOLE_REPLICAS = SimulationOptions(brokers=3, duration_ms=8_000, replication_factor=1)
LONG_RUN = SimulationOptions(brokers=3, duration_ms=60_000)


def check(seed: int, options: SimulationOptions) -> None:
    result = Simulation(seed, options).run()
    assert result.violation is None, "\n".join([str(result.violation), *result.story[-40:]])


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_replicated_cluster_keeps_its_guarantees(seed: int) -> None:
    check(seed, REPLICATED)


@pytest.mark.long
def test_a_replicated_cluster_keeps_its_guarantees_under_more_seeds() -> None:
    for seed in (1, *range(4, 23)):
        check(seed, REPLICATED)


@pytest.mark.long
def test_five_brokers_keep_their_guarantees() -> None:
    for seed in range(2):
        check(seed, FIVE_BROKERS)


@pytest.mark.long
def test_sole_replicas_keep_their_guarantees() -> None:
    for seed in range(4):
        check(seed, SOLE_REPLICAS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(23, 2_000))
def test_a_replicated_cluster_keeps_its_guarantees_under_many_seeds(seed: int) -> None:
    check(seed, REPLICATED)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(500))
def test_sole_replicas_keep_their_guarantees_under_many_seeds(seed: int) -> None:
    check(seed, SOLE_REPLICAS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
def test_a_cluster_survives_long_runs_of_faults(seed: int) -> None:
    check(seed, LONG_RUN)
