"""Controllers of Kafka that went on after they were deposed."""

from typing import TYPE_CHECKING

from sawlog.simulation.world.faults import FaultKind
from support.simulation.scenario import SEEDS, Scenario

if TYPE_CHECKING:
    from sawlog.core.ids import NodeId


@SEEDS
def test_kafka_6082_a_controller_sleeps_and_wakes_up_with_writes_in_hand(seed: int) -> None:
    """A controller was paused beyond its session, and a broker died meanwhile. When it woke up, its
    elections overwrote those of its successor: nothing in them named the controller's epoch."""
    scenario = Scenario(seed)
    seen: list[NodeId] = []

    def pause() -> None:
        seen.extend(scenario.controllers())
        scenario.inject(FaultKind.PAUSE, seen[0], 8_000)
        victim = next(node for node in scenario.cluster.nodes if node != seen[0])
        scenario.inject(FaultKind.KILL, victim, 10_000)

    scenario.at(2_000, pause)
    scenario.at(10_500, lambda: seen.extend(scenario.controllers()))
    scenario.ends_well()
    assert len(seen) == 2, "one controller before, and one after"
    assert seen[0] != seen[1]


@SEEDS
def test_kafka_1188_and_4447_a_cut_off_controller_does_not_act(seed: int) -> None:
    """A controller that was cut off from ZooKeeper did not know that its session was over. It went
    on sending decisions to brokers that it still reached, and these followed them."""
    scenario = Scenario(seed)
    during: list[NodeId] = []

    def cut_off() -> None:
        scenario.inject(FaultKind.SUSPENDED_SESSION, scenario.controllers()[-1], 9_000)

    scenario.at(2_000, cut_off)
    scenario.at(10_000, lambda: during.extend(scenario.controllers()))
    scenario.ends_well()
    assert len(during) == 2, "the deposed one does not know it yet"


@SEEDS
def test_kafka_5310_a_controller_that_is_elected_again_knows_what_happened_meanwhile(
    seed: int,
) -> None:
    """A controller resigned and kept its picture of the cluster. Elected again, it wrote leaders
    and in-sync sets of its first term."""
    scenario = Scenario(seed)
    terms: list[NodeId] = []

    def end_term() -> None:
        terms.extend(scenario.controllers())
        scenario.inject(FaultKind.EXPIRED_SESSION, terms[-1], 0)

    for place in range(8):
        scenario.at(1_000 + 1_200 * place, end_term)
    scenario.ends_well()
    again = [node for place, node in enumerate(terms) if node in terms[: max(place - 1, 0)]]
    assert again, f"no controller was elected again: {terms}"
