"""In-sync sets of Kafka that named a replica without the data, or held up the watermark."""

from sawlog.simulation.world.faults import Fault, FaultKind
from support.simulation.planted_faults import LOST_ANSWERS, OLD_WATERMARKS
from support.simulation.scenario import ONE, SEEDS, TWO, Scenario


@SEEDS
def test_kafka_14617_a_bounced_broker_without_its_data_does_not_rejoin(seed: int) -> None:
    """A follower lost its disk and restarted within its session. The leader still counted the
    fetches of its earlier process, and put it back into the set: elected, it had nothing."""
    scenario = Scenario(
        seed,
        [Fault(2_000, FaultKind.EMPTY_DISK, TWO, 50), Fault(2_100, FaultKind.KILL, ONE, 9_000)],
    )
    result = scenario.ends_well()
    assert any("gets an empty disk" in line for line in result.story)


@SEEDS
def test_kafka_1382_a_conditional_write_lands_and_its_answer_is_lost(seed: int) -> None:
    """The leader wrote an in-sync set, lost the connection, and repeated the write with the old
    version. It failed for ever, and the set of the leader differed from the stored one."""
    Scenario(seed, LOST_ANSWERS).ends_well()


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
def test_kafka_7128_a_follower_joins_below_the_start_of_the_epoch(seed: int) -> None:
    """A new leader's watermark lagged behind the one that the last leader had told to clients. A
    follower joined at that watermark, was elected, and committed records were gone."""
    Scenario(seed, OLD_WATERMARKS).ends_well()
