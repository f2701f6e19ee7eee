"""Logs of Kafka that diverged where two leaders had appended."""

from sawlog.core.ids import NodeId
from sawlog.simulation.world.faults import Fault, FaultKind
from support.simulation.planted_faults import DEAF_FOLLOWERS
from support.simulation.scenario import ONE, SEEDS, Scenario


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
def test_kafka_7235_requests_to_a_brokers_previous_life_change_nothing(seed: int) -> None:
    """A broker restarted at once, and requests for its earlier process made it leader or follower
    of an epoch that was over. Here a follower that does not know the new epoch goes on fetching."""
    Scenario(seed, DEAF_FOLLOWERS).ends_well()


@SEEDS
def test_kafka_9839_a_leader_hears_a_newer_broker_epoch_from_the_broker_itself(seed: int) -> None:
    """A broker met an epoch that was newer than the one it knew of, and failed with an exception.
    Here a leader without a connection to the store gets fetches of a follower's new epoch."""
    scenario = Scenario(seed)
    is_newer: list[bool] = []

    def change_epoch() -> None:
        controller = scenario.controllers()[-1]
        partition = next(index for index in range(3) if scenario.leader(index) != controller)
        leader = scenario.leader(partition)
        follower = next(n for n in scenario.cluster.nodes if n not in (leader, controller))
        scenario.inject(FaultKind.SUSPENDED_SESSION, leader, 5_500)
        scenario.inject(FaultKind.EXPIRED_SESSION, follower, 0)
        scenario.at(2_000, lambda: look(leader, partition, follower))

    def look(leader: NodeId, partition: int, follower: NodeId) -> None:
        broker = scenario.cluster.nodes[leader].broker
        assert broker is not None
        led = broker.replicas.by_partition["simulated", partition].leader
        assert led is not None
        known = broker.metadata.image.brokers[follower]
        is_newer.append(led.followers[follower].broker_epoch > known.epoch)

    scenario.at(2_000, change_epoch)
    scenario.ends_well()
    assert is_newer == [True], "the fetches tell more than the leader's image"
