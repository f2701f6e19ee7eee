"""What a planted bug is, and the list of all."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from sawlog.simulation.cluster_profile import FLUSH_BY_SYSTEM, ClusterProfile
from sawlog.simulation.invariants.violation import Violation
from sawlog.simulation.world.faults import Fault
from support.simulation.planted_faults import DURATION_MS

PLAIN = ClusterProfile()
FLUSHED_BY_SYSTEM = ClusterProfile(FLUSH_BY_SYSTEM)

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """`faults` is None for the plan of the seed."""

    name: str
    guarantees: frozenset[str]
    plant: Plant
    faults: list[Fault] | None
    seed: int
    profile: ClusterProfile
    words: str
    duration_ms: int

    def is_found(self, violation: Violation | None) -> bool:
        return (
            violation is not None
            and violation.guarantee in self.guarantees
            and self.words in str(violation)
        )


BUGS: dict[str, PlantedBug] = {}


def bug(
    *guarantees: str,
    faults: list[Fault] | None = None,
    seed: int = 0,
    profile: ClusterProfile = PLAIN,
    words: str = "",
    duration_ms: int = DURATION_MS,
) -> Callable[[Plant], Plant]:
    def add(plant: Plant) -> Plant:
        BUGS[plant.__name__] = PlantedBug(
            plant.__name__, frozenset(guarantees), plant, faults, seed, profile, words, duration_ms
        )
        return plant

    return add
