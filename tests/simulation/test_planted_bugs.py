"""The simulator bites: each test plants a bug in the broker, and a run finds it.

Every bug is looked for in a bounded number of seeds, under the faults that provoke it.
"""

from typing import Any

import pytest

from sawlog.cluster import controller, isr_changes, leader_election
from sawlog.core.ids import NodeId
from sawlog.core.store import SetData
from sawlog.replication.follower_progress import FollowerProgress
from sawlog.replication.leader import Leader
from sawlog.replication.replica import Replica
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.simulation.world.faults import Fault, FaultKind
from sawlog.simulation.world.simulation import Simulation, SimulationOptions
from sawlog.storage.leader_epochs import LeaderEpochs

SEEDS = 5
OPTIONS = SimulationOptions(brokers=3, duration_ms=14_000)


def faults(kind: FaultKind, *, every_ms: int = 2_000, duration_ms: int = 300) -> list[Fault]:
    """The same fault again and again, on one broker after the other."""
    return [
        Fault(
            1_000 + place * every_ms, kind, NodeId(place % 3 + 1), duration_ms, (place + 1) % 3 + 1
        )
        for place in range((OPTIONS.duration_ms - 2_000) // every_ms)
    ]


def broken_guarantee(planned: list[Fault]) -> str:
    """Return the guarantee that breaks first in a few seeds; empty if none does."""
    for seed in range(SEEDS):
        violation = Simulation(seed, OPTIONS, planned).run().violation
        if violation is not None:
            return violation.guarantee
    return ""


def unversioned(path: str, data: bytes, _: int) -> SetData:
    return SetData(path, data)


@pytest.mark.long
def test_a_follower_that_counts_before_it_flushed_is_found(monkeypatch: Any) -> None:
    monkeypatch.setattr(
        FollowerProgress,
        "reached",
        lambda self, *, by_flush: self.end_offset,
    )
    assert broken_guarantee([]) == "14b"


@pytest.mark.long
def test_a_watermark_over_the_leader_alone_is_found(monkeypatch: Any) -> None:
    monkeypatch.setattr(Leader, "committed_offset", lambda _, own_offset, __: own_offset)
    assert broken_guarantee([]) == "14b"


@pytest.mark.long
def test_an_acknowledgement_before_the_commit_is_found(monkeypatch: Any) -> None:
    monkeypatch.setattr(Replica, "when_committed", lambda _, __, action: action(None))
    assert broken_guarantee([]) == "14b"


@pytest.mark.long
def test_a_disk_that_forgets_syncs_is_found(monkeypatch: Any) -> None:
    monkeypatch.setattr(SimulatedDisk, "sync", lambda *_: None)
    planned = faults(FaultKind.POWER_LOSS_OF_ALL, every_ms=4_000)
    assert broken_guarantee(planned) in {"1", "2", "3", "5"}


@pytest.mark.long
def test_truncation_to_the_watermark_is_found(monkeypatch: Any) -> None:
    follow = Replica.follow

    def follow_from_watermark(self: Replica, epoch: Any, leader: Any) -> None:
        is_new = epoch > self.leader_epoch
        follow(self, epoch, leader)
        if is_new and self.log.end_offset > self.high_watermark:
            self.log.truncate(self.high_watermark)

    monkeypatch.setattr(Replica, "follow", follow_from_watermark)
    planned = faults(FaultKind.EXPIRED_SESSION, every_ms=700)
    assert broken_guarantee(planned) in {"2", "3", "11"}


@pytest.mark.long
def test_an_in_sync_set_write_without_a_version_is_found(monkeypatch: Any) -> None:
    monkeypatch.setattr(isr_changes, "SetData", unversioned)
    assert broken_guarantee(faults(FaultKind.KILL, duration_ms=4_000)) == "12"


@pytest.mark.long
def test_a_controller_that_does_not_check_its_epoch_is_found(monkeypatch: Any) -> None:
    monkeypatch.setattr(controller, "Check", lambda *_: SetData("/config", b""))
    assert broken_guarantee(faults(FaultKind.KILL, duration_ms=4_000)) == "13"


@pytest.mark.long
def test_an_election_outside_of_the_in_sync_set_is_found(monkeypatch: Any) -> None:
    def elect_first(electorate: Any, replicas: Any, old: Any) -> Any:
        node = next((node for node in replicas if electorate.may_lead(node)), None)
        if node is None:
            return elected(electorate, replicas, old)
        led = old._replace(members=(electorate.current(node),), leader=node)
        return led._replace(leader_epoch=old.leader_epoch + 1)

    elected = leader_election._elected
    monkeypatch.setattr(leader_election, "_elected", elect_first)
    planned = [  # broker 1 falls behind, then the others lose their sessions
        Fault(1_000, FaultKind.KILL, NodeId(1), 8_000),
        Fault(9_200, FaultKind.PAUSE, NodeId(2), 8_000),
        Fault(9_200, FaultKind.PAUSE, NodeId(3), 8_000),
    ]
    assert broken_guarantee(planned + faults(FaultKind.KILL, duration_ms=4_000)) in {"16", "3"}


@pytest.mark.long
def test_a_follower_that_joins_too_early_is_found(monkeypatch: Any) -> None:
    expand = Leader.expand
    reached = FollowerProgress.reached

    def expand_early(self: Leader, node: Any, high_watermark: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FollowerProgress, "reached", lambda *_, **__: 1 << 62)
            expand(self, node, high_watermark)
        assert FollowerProgress.reached is reached

    monkeypatch.setattr(Leader, "expand", expand_early)
    planned = faults(FaultKind.POWER_LOSS, duration_ms=5_000)
    assert broken_guarantee(planned) in {"7", "2", "14b"}


@pytest.mark.long
def test_an_acknowledgement_below_min_insync_replicas_is_found(monkeypatch: Any) -> None:
    monkeypatch.setattr(Replica, "check_min_in_sync", lambda _: None)
    monkeypatch.setattr(Replica, "is_under_min_isr", False)
    planned = [
        Fault(1_000, FaultKind.KILL, NodeId(1), 12_000),
        Fault(1_100, FaultKind.KILL, NodeId(2), 12_000),
    ]
    assert broken_guarantee(planned) == "15"


@pytest.mark.long
def test_a_missing_epoch_entry_is_found(monkeypatch: Any) -> None:
    assign = LeaderEpochs.assign

    def assign_first(self: LeaderEpochs, epoch: int, start_offset: int) -> bool:
        return not self.entries and assign(self, epoch, start_offset)

    monkeypatch.setattr(LeaderEpochs, "assign", assign_first)
    assert broken_guarantee(faults(FaultKind.EXPIRED_SESSION)) == "10"
