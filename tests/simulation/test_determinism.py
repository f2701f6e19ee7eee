"""The same seed gives the same run, event by event, in every process."""

import os
import subprocess
import sys

import pytest

from sawlog.simulation.world.simulation import Simulation, SimulationOptions

OPTIONS = SimulationOptions(brokers=3, duration_ms=4_000)
SEEDS = (1, 2, 3)
PROGRAM = """
from sawlog.simulation.world.simulation import Simulation, SimulationOptions
options = SimulationOptions(brokers=3, duration_ms=4_000)
print(*(Simulation(seed, options).run().trace_hash for seed in (1, 2, 3)))
"""


def test_a_seed_gives_the_same_trace_twice() -> None:
    first = [Simulation(seed, OPTIONS).run().trace_hash for seed in SEEDS]
    second = [Simulation(seed, OPTIONS).run().trace_hash for seed in SEEDS]
    assert first == second
    assert len(set(first)) == len(SEEDS)


@pytest.mark.long
def test_a_seed_gives_the_same_trace_under_any_hash_seed() -> None:
    hashes = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        hashes.add(ended.stdout)
    assert len(hashes) == 1
