"""In-sync sets of Kafka that named a replica without the data, or held up the watermark."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest

from sawlog.cluster.isr_changes import IsrChanges, IsrWriteError, _Write
from sawlog.core.ids import NodeId, TopicPartition
from sawlog.core.store import NoNode, Result, StoreError
from sawlog.replication.leader import Leader
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import StateChange
from sawlog.simulation.world.faults import Fault, FaultKind
from support.simulation.scenario import ONE, SEEDS, TWO, Roles, Scenario

if TYPE_CHECKING:
    from sawlog.cluster.metadata_image import InSyncMember

CHECKPOINT_MS = 5_000
"""The default of `replica.high.watermark.checkpoint.interval.ms`."""


class LeadersWrites(NoInvariant):
    """Calls `then` right after a leader's own change of the in-sync set of a partition has landed,
    before the answer to it arrives."""

    def __init__(self, roles: Roles, then: Callable[[StateChange], None]) -> None:
        self._roles = roles
        self._then = then

    def state_changed(self, change: StateChange) -> None:
        before, now = change.before, change.now
        if (
            change.partition.key.name == ("simulated", self._roles.partition)
            and before is not None
            and before.leader_epoch == now.leader_epoch
            and change.write.writer == now.leader == self._roles.leader.id
        ):
            self._then(change)


def bounce_without_data(scenario: Scenario, roles: Roles) -> None:
    """Restart the follower with an empty disk, and half a second later let the calls of the leader
    reach the store. The follower's session ends first: until then a broker with another directory
    cannot register."""
    leaders, store = roles.leader.store, roles.follower.store
    assert leaders is not None
    assert store is not None
    roles.follower.kill()
    store.expire()
    roles.follower.wipe()
    roles.follower.boot()
    scenario.at(500, leaders.release)


@SEEDS
def test_kafka_14617_a_bounced_broker_without_its_data_does_not_rejoin(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower that had caught up lost its disk and restarted, while the leader's write that adds
    it was under way. It joined under the epoch of its earlier process: elected, it had nothing."""
    scenario = Scenario(seed)
    results: list[object] = []
    joined: list[InSyncMember] = []
    roles: Roles | None = None
    old_epoch = -1
    send, answered = IsrChanges._send, IsrChanges._answered

    def adds_follower(write: _Write) -> bool:
        if roles is None or write.name != ("simulated", roles.partition):
            return False
        return any(m.node == roles.follower.id for m in write.members)

    def send_slowly(self: IsrChanges, write: _Write) -> None:
        nonlocal old_epoch
        if old_epoch < 0 and roles is not None and adds_follower(write):
            old_epoch = next(m.broker_epoch for m in write.members if m.node == roles.follower.id)
            assert roles.leader.store is not None
            roles.leader.store.hold()
            scenario.at(0, partial(bounce_without_data, scenario, roles))
        send(self, write)

    def record(self: IsrChanges, write: _Write, result: list[Result] | StoreError) -> None:
        if adds_follower(write):
            results.append(result)
        answered(self, write, result)

    def leave() -> None:
        nonlocal roles
        roles = scenario.roles()
        scenario.observer.add(LeadersWrites(roles, added))
        scenario.inject(FaultKind.EXPIRED_SESSION, roles.follower.id, 0)

    def added(change: StateChange) -> None:
        assert roles is not None
        member = change.now.member(roles.follower.id)
        if member is not None:
            joined.append(member)

    monkeypatch.setattr(IsrChanges, "_send", send_slowly)
    monkeypatch.setattr(IsrChanges, "_answered", record)
    scenario.at(2_000, leave)
    scenario.ends_well()
    assert old_epoch >= 0
    assert isinstance(results[0], NoNode), "the registration of the earlier process is gone"
    assert joined, "the new process joins once it has caught up"
    assert all(member.broker_epoch > old_epoch for member in joined)


@SEEDS
def test_kafka_1382_a_conditional_write_lands_and_its_answer_is_lost(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader wrote an in-sync set, lost the connection, and repeated the write with the old
    version. It failed for ever, and the set of the leader differed from the stored one."""
    scenario = Scenario(seed)
    landed: dict[TopicPartition, int] = {}
    decided: list[int | IsrWriteError] = []
    known: list[int] = []
    decide = IsrChanges._decide

    def decide_and_record(self: IsrChanges, write: _Write) -> None:
        def done(result: int | IsrWriteError) -> None:
            if landed.get(write.name) == write.partition_epoch + 1:
                decided.append(result)
            write.done(result)

        decide(self, write._replace(done=done))

    def rejoin() -> None:
        roles = scenario.roles()
        scenario.observer.add(LeadersWrites(roles, partial(lose_answer, roles)))
        scenario.inject(FaultKind.EXPIRED_SESSION, roles.follower.id, 0)

    def lose_answer(roles: Roles, change: StateChange) -> None:
        store = roles.leader.store
        if not landed and store is not None:
            landed[change.partition.key.name] = change.now.version
            store.suspend()
            scenario.at(1_000, store.resume)
            scenario.at(1_500, lambda: look(roles))

    def look(roles: Roles) -> None:
        broker = roles.leader.broker
        assert broker is not None
        leader = broker.replicas.by_partition["simulated", roles.partition].leader
        assert leader is not None
        assert leader.in_sync.pending is None
        known.append(leader.in_sync.partition_epoch)

    monkeypatch.setattr(IsrChanges, "_decide", decide_and_record)
    scenario.at(2_000, rejoin)
    scenario.ends_well()
    assert len(known) == 1
    assert decided[:1] == known == list(landed.values()), "it was recognised, and is the stored one"


@SEEDS
def test_kafka_12686_an_in_sync_set_changes_during_a_change_of_leaders(seed: int) -> None:
    """The answer to a change of the set arrived after the partition had a new leader, and the
    broker took over a set of the earlier epoch."""
    scenario = Scenario(seed)

    def race() -> None:
        leader = scenario.leader()
        other = next(node for node in scenario.cluster.nodes if node != leader)
        scenario.inject(FaultKind.KILL, other, 50)
        scenario.at(80, lambda: scenario.inject(FaultKind.EXPIRED_SESSION, leader, 0))

    for place in range(6):
        scenario.at(1_000 + 1_500 * place, race)
    result = scenario.ends_well()
    assert scenario.leader() > 0
    assert any("leader in epoch 3" in line for line in result.story)


@SEEDS
def test_kafka_13091_the_watermark_advances_after_a_follower_has_left(seed: int) -> None:
    """The set shrank, and no fetch followed that would have computed the watermark: producers
    waited until they timed out."""
    scenario = Scenario(seed, [Fault(1_000, FaultKind.CUT_TWO_WAY, ONE, 9_000, int(TWO))])
    scenario.ends_well()
    assert scenario.acknowledged_between(6_500, 9_500) == {0, 1, 2}


@SEEDS
def test_kafka_7128_a_follower_joins_below_the_start_of_the_epoch(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new leader's watermark lagged behind the one that the last leader had told to clients. A
    follower joined at that watermark, was elected, and committed records were gone.

    Here the follower leaves after the leader's checkpoint of its watermark. The leader restarts
    with that one, and cannot raise it: its last in-sync follower, the controller, is cut off."""
    scenario = Scenario(seed)
    asked: list[tuple[int, int, int]] = []
    roles: Roles | None = None
    expand = Leader.expand

    def expand_and_record(self: Leader, node: NodeId, high_watermark: int) -> None:
        reached = self.followers[node].reached(by_flush=True)
        if (
            roles is not None
            and (self._name, node) == (("simulated", roles.partition), roles.follower.id)
            and self.in_sync.member(node) is None
            and high_watermark <= reached < self.start_offset
        ):
            asked.append((high_watermark, reached, self.start_offset))
        expand(self, node, high_watermark)
        if asked and asked[-1] == (high_watermark, reached, self.start_offset):
            assert self.in_sync.pending is None, "it may not join yet"

    def leave() -> None:
        nonlocal roles
        roles = scenario.roles()
        store, leader = roles.follower.store, roles.leader
        assert store is not None
        roles.follower.kill()
        store.expire()
        scenario.at(600, lambda: scenario.inject(FaultKind.POWER_LOSS, leader.id, 50))
        cut = (FaultKind.CUT_TWO_WAY, leader.id, 2_000, roles.controller.id)
        scenario.at(600, lambda: scenario.inject(*cut))
        scenario.at(700, roles.follower.boot)

    monkeypatch.setattr(Leader, "expand", expand_and_record)
    scenario.at(CHECKPOINT_MS + 500, leave)
    scenario.ends_well()
    assert asked, "no follower asked between the watermark and the start of the epoch"
