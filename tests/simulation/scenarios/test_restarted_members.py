"""Members of an in-sync set that restart with their data directories stay in it.

While a leader's session lasts, it counts as alive, even if its machine is gone. Members that
restart in that time have everything acknowledged on their disks (guarantee 14b).
"""

from dataclasses import replace
from functools import partial

import pytest

from sawlog.cluster import leader_election
from sawlog.cluster.isr_changes import IsrChanges
from sawlog.core.ids import NodeId
from sawlog.simulation.world.simulation import RunResult
from support.simulation.scenario import OPTIONS, SEEDS, Scenario


def lose_a_leaders_disk(scenario: Scenario) -> None:
    """Empty the disk of a leader that is not the controller, and restart all other brokers."""
    controller = scenario.controllers()[-1]
    partition = next(index for index in range(3) if scenario.leader(index) != controller)
    lost = scenario.cluster.nodes[scenario.leader(partition)]
    lost.kill()
    lost.wipe()
    scenario.at(500, lost.boot)
    others = [node for node in scenario.cluster.nodes.values() if node is not lost]
    for place, node in enumerate(others):
        scenario.at(200 + 400 * place, node.kill)
        scenario.at(250 + 400 * place, node.boot)


@SEEDS
def test_a_leaders_disk_is_lost_while_both_followers_restart(seed: int) -> None:
    """Both left the in-sync set, because their broker epochs were new. Its last member was the lost
    directory, and the partition stayed offline, although both had every record."""
    scenario = Scenario(seed)
    scenario.at(2_000, partial(lose_a_leaders_disk, scenario))
    result = scenario.ends_well()
    assert sum("gets an empty disk" in line for line in result.story) == 1
    assert scenario.acknowledged_between(9_500, 14_000) == {0, 1, 2}


@SEEDS
def test_a_restarted_follower_of_a_live_leader_stays_in_the_in_sync_set(seed: int) -> None:
    scenario = Scenario(seed)
    sizes: list[int] = []

    def restart() -> None:
        leader = scenario.leader()
        node = next(each for each in scenario.cluster.nodes.values() if each.id != leader)
        node.kill()
        scenario.at(50, node.boot)
        for later_ms in range(100, 1_400, 5):
            scenario.at(later_ms, partial(look, leader))

    def look(leader: NodeId) -> None:
        assert scenario.leader() == leader
        sizes.append(len(scenario.state().members))

    scenario.at(2_000, restart)
    scenario.ends_well()
    assert set(sizes) == {3}


def replace_a_followers_disk(expiry_ms: int) -> RunResult:
    """A follower that was in sync a moment ago registers with an empty disk as its session ends,
    `expiry_ms` after its start: the controller may see one change only."""
    scenario = Scenario(1)

    def replace() -> None:
        node = next(
            n for n in scenario.cluster.nodes.values() if n.id != scenario.controllers()[-1]
        )
        store = node.store
        assert store is not None
        node.kill()
        node.wipe()
        node.boot()
        scenario.at(expiry_ms, store.expire)

    scenario.at(2_000, replace)
    return scenario.run()


EXPIRIES_MS = (7, 8, 10)


@pytest.mark.long
def test_a_member_that_would_stay_without_its_directory_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bug is planted: the controller keeps every member that is alive."""
    monkeypatch.setattr(
        leader_election, "_may_stay", lambda electorate, member: electorate.may_lead(member.node)
    )
    violations = (replace_a_followers_disk(expiry_ms).violation for expiry_ms in range(7, 16))
    found = next((violation for violation in violations if violation is not None), None)
    assert found is not None
    assert found.guarantee in ("2", "7"), str(found)


@pytest.mark.long
def test_a_member_that_comes_back_without_its_directory_leaves_the_set() -> None:
    for expiry_ms in EXPIRIES_MS:
        assert replace_a_followers_disk(expiry_ms).violation is None


def register_a_follower_of_a_paused_leader_again(paused_ms: int) -> RunResult:
    """A follower that left the in-sync set catches up with its leader, which is paused at that
    moment, `paused_ms` after the start of the follower. When the leader goes on, it finds the
    follower's fetch first; that the follower's session has ended since, it learns later."""
    scenario = Scenario(1, options=replace(OPTIONS, duration_ms=8_000))

    def leave() -> None:
        leader = scenario.cluster.nodes[scenario.leader()]
        controller = scenario.controllers()[-1]
        follower = next(
            node
            for node in scenario.cluster.nodes.values()
            if node.id not in (leader.id, controller)
        )
        store = follower.store
        assert store is not None
        follower.kill()
        store.expire()
        scenario.at(300, follower.boot)
        scenario.at(300 + paused_ms, leader.pause)
        scenario.at(320 + paused_ms, lambda: follower.store and follower.store.expire())
        scenario.at(500 + paused_ms, leader.resume)

    scenario.at(2_000, leave)
    return scenario.run()


PAUSES_MS = (32, 56, 80)


@pytest.mark.long
def test_an_addition_by_a_leader_with_an_old_image_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bug is planted: the write does not check the registration of the added member."""
    monkeypatch.setattr(IsrChanges, "_registration_checks", lambda *_: [])
    results = (register_a_follower_of_a_paused_leader_again(ms).violation for ms in PAUSES_MS)
    found = next((violation for violation in results if violation is not None), None)
    assert found is not None
    assert found.guarantee == "14a", str(found)


@pytest.mark.long
def test_a_leader_with_an_old_image_adds_no_member_under_its_earlier_epoch() -> None:
    for paused_ms in PAUSES_MS:
        assert register_a_follower_of_a_paused_leader_again(paused_ms).violation is None
