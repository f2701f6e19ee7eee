"""Bugs to plant in the deletion and creation of topics, and in ordered elections."""

from typing import Any

import pytest

from sawlog.broker.replicas import Replicas
from sawlog.cluster import ordered_elections, znodes
from sawlog.core.store import SetData
from sawlog.replication.replica import Replica
from sawlog.simulation.simulated_store import SimulatedStore
from sawlog.simulation.world.faults import FaultKind
from support.simulation.planted_bug import bug
from support.simulation.planted_faults import MISSED_REPLACEMENT, repeated


@bug("13", faults=MISSED_REPLACEMENT, words="created or deleted it without")
def topic_is_deleted_without_the_controllers_epoch(patch: pytest.MonkeyPatch) -> None:
    multi = SimulatedStore.multi

    def multi_without_check(self: SimulatedStore, operations: Any, done: Any, **more: Any) -> None:
        if any(each.path.startswith(znodes.DELETE_TOPICS) for each in operations):
            operations = [each for each in operations if each.path != znodes.CONTROLLER_EPOCH]
        multi(self, operations, done, **more)

    patch.setattr(SimulatedStore, "multi", multi_without_check)


@bug("5", faults=MISSED_REPLACEMENT, words="the log of a new topic id")
def log_of_a_deleted_topic_is_opened_for_a_new_one(patch: pytest.MonkeyPatch) -> None:
    """The log is found by its name."""

    def open_by_name(self: Replicas, name: Any, topic_id: Any, config: Any) -> Replica:
        directory = self._directory
        log = directory.logs.get(name) or directory.create(name, topic_id, config)
        replica = self.by_partition[name] = Replica(log, name, topic_id, self._context)
        return replica

    patch.setattr(Replicas, "_open", open_by_name)


@bug(
    "13",
    faults=[
        *repeated(FaultKind.KILL, duration_ms=7_000, every_ms=8_000),
        *repeated(FaultKind.PREFERRED_ELECTION, every_ms=1_000),
    ],
    words="wrote the state without",
)
def ordered_election_does_not_check_the_assignment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ordered_elections, "Check", lambda *_: SetData("/config", b""))
