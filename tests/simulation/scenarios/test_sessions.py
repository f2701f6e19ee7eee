"""Brokers of Kafka that did not come back after their ZooKeeper session was over."""

from sawlog.core.ids import NodeId
from sawlog.core.store import SessionState
from sawlog.simulation.world.faults import Fault, FaultKind
from support.simulation.scenario import ONE, SEEDS, TWO, Scenario

ALL_PARTITIONS = {0, 1, 2}


@SEEDS
def test_kafka_1029_and_7165_quick_restarts_meet_their_own_old_registrations(seed: int) -> None:
    """A broker that restarted within its session found the ephemeral node of its earlier process,
    and stopped, or ran without being registered once that node was deleted."""
    restarts = [
        Fault(1_000 + place * 1_500, FaultKind.KILL, NodeId(place % 3 + 1), 50)
        for place in range(6)
    ]
    scenario = Scenario(seed, restarts)
    result = scenario.ends_well()
    assert sum("starts" in line for line in result.story) == 3 + len(restarts)
    assert not any("cannot start" in line for line in result.story)


@SEEDS
def test_kafka_5473_a_session_expires_and_the_store_gives_no_new_one(seed: int) -> None:
    """A broker gave up after a few attempts to get a new session, and ran on without one."""
    scenario = Scenario(
        seed,
        [
            Fault(1_000, FaultKind.EXPIRED_SESSION, ONE, 50),
            Fault(1_000, FaultKind.STORE_DOWN, ONE, 8_000),
            Fault(1_020, FaultKind.EXPIRED_SESSION, TWO, 50),
        ],
    )
    scenario.ends_well()
    assert scenario.acknowledged_between(12_000, 14_000) == ALL_PARTITIONS


@SEEDS
def test_kafka_8532_all_sessions_expire_again_and_again(seed: int) -> None:
    """The handler of an expired session waited for the controller's thread, and that one for the
    handler: the broker was never registered again."""
    scenario = Scenario(
        seed,
        [
            Fault(1_000 + place * 100, FaultKind.EXPIRED_SESSION, node, 0)
            for place in range(30)
            for node in (ONE, TWO, NodeId(3))
        ],
    )
    scenario.ends_well()
    assert scenario.acknowledged_between(6_000, 14_000) == ALL_PARTITIONS


@SEEDS
def test_a_leader_without_a_connection_to_the_store_goes_on_acknowledging(seed: int) -> None:
    """acks=all needs the in-sync set only, and that does not change meanwhile. All other brokers
    are healthy: a producer of the simulation has one batch in flight, so a partition without a
    leader would keep it from writing to this one."""
    scenario = Scenario(seed)
    suspended: list[SessionState] = []
    partition = -1

    def suspend() -> None:
        nonlocal partition
        controller = scenario.controllers()[-1]
        partition = next(index for index in range(3) if scenario.leader(index) != controller)
        leader = scenario.leader(partition)
        scenario.inject(FaultKind.SUSPENDED_SESSION, leader, 5_000)
        for second in range(1, 5):
            scenario.at(second * 1_000, lambda: look(leader))

    def look(leader: NodeId) -> None:
        store = scenario.cluster.nodes[leader].store
        assert store is not None
        suspended.append(store.state)
        assert scenario.leader(partition) == leader
        now_ms = scenario.cluster.schedule.monotonic_ms()
        assert partition in scenario.acknowledged_between(now_ms - 900, now_ms)

    scenario.at(2_000, suspend)
    result = scenario.ends_well()
    assert suspended == [SessionState.SUSPENDED] * 4
    assert not any("before: " in line and "none" not in line for line in result.story)
