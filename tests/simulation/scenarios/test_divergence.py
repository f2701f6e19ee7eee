"""Logs of Kafka that diverged where two leaders had appended."""

import pytest

from sawlog.core.ids import NodeId
from sawlog.replication.replica import Replica
from sawlog.simulation.world.faults import Fault, FaultKind
from support.simulation.scenario import ONE, SEEDS, Roles, Scenario


@SEEDS
def test_kip_101_a_deposed_leader_gives_up_what_it_appended_alone(seed: int) -> None:
    """A broker truncated to its watermark, which lags behind, or not at all: it lost committed
    records, or kept others than the new leader."""
    scenario = Scenario(seed, [Fault(1_000, FaultKind.ISOLATION, ONE, 9_000)])
    result = scenario.ends_well()
    assert any("on broker 1: truncated from" in line for line in result.story)


@SEEDS
def test_kip_279_and_kafka_6361_leaders_change_faster_than_followers_catch_up(seed: int) -> None:
    """After several quick elections the last epoch of a follower was unknown to its leader, or
    had no records there, and one answer about its end was not enough."""
    scenario = Scenario(
        seed,
        [
            Fault(1_000 + place * 600, FaultKind.POWER_LOSS, NodeId(place % 3 + 1), 50)
            for place in range(18)
        ],
    )
    result = scenario.ends_well()
    assert any("leader in epoch 5" in line for line in result.story)


@SEEDS
def test_kafka_7235_requests_to_a_brokers_previous_life_change_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker restarted at once, and requests for its earlier process made it leader or follower
    of an epoch that was over. Here a follower that does not know the new epoch goes on fetching."""
    scenario = Scenario(seed)
    requests: list[tuple[Replica, int]] = []
    refused: set[tuple[int, int, int]] = set()
    check_epoch = Replica.check_epoch

    def check_and_record(self: Replica, current: int) -> None:
        requests.append((self, current))
        check_epoch(self, current)

    def restart() -> None:
        roles = scenario.roles()
        epoch = scenario.state(roles.partition).leader_epoch
        scenario.inject(FaultKind.SUSPENDED_SESSION, roles.follower.id, 1_500)
        scenario.at(200, lambda: scenario.inject(FaultKind.KILL, roles.leader.id, 50))
        scenario.at(1_400, lambda: look(roles, epoch))

    def look(roles: Roles, epoch: int) -> None:
        """Before the follower's session goes on: the fetches of it that the second life got."""
        broker = roles.leader.broker
        assert broker is not None
        replica = broker.replicas.by_partition["simulated", roles.partition]
        assert scenario.leader(roles.partition) == roles.leader.id
        refused.update(
            (roles.leader.lives, current, self.leader_epoch)
            for self, current in requests
            if self is replica and current == epoch
        )
        assert refused == {(2, epoch, replica.leader_epoch)}
        assert replica.leader_epoch > epoch
        assert replica.leader is not None
        assert not replica.leader.followers[roles.follower.id].has_fetched

    monkeypatch.setattr(Replica, "check_epoch", check_and_record)
    scenario.at(2_000, restart)
    scenario.ends_well()
    assert refused, "no request for the earlier epoch came"


@SEEDS
def test_kafka_9839_a_leader_hears_a_newer_broker_epoch_from_the_broker_itself(seed: int) -> None:
    """A broker met an epoch that was newer than the one it knew of, and failed with an exception.
    Here a leader without a connection to the store gets fetches of a follower's new epoch."""
    scenario = Scenario(seed)
    is_newer: list[bool] = []

    def change_epoch() -> None:
        roles = scenario.roles()
        scenario.inject(FaultKind.SUSPENDED_SESSION, roles.leader.id, 5_500)
        scenario.inject(FaultKind.EXPIRED_SESSION, roles.follower.id, 0)
        scenario.at(2_000, lambda: look(roles))

    def look(roles: Roles) -> None:
        broker = roles.leader.broker
        assert broker is not None
        led = broker.replicas.by_partition["simulated", roles.partition].leader
        assert led is not None
        known = broker.metadata.image.brokers[roles.follower.id]
        is_newer.append(led.followers[roles.follower.id].broker_epoch > known.epoch)

    scenario.at(2_000, change_epoch)
    scenario.ends_well()
    assert is_newer == [True], "the fetches tell more than the leader's image"
