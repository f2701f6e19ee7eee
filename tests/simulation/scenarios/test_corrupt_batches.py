"""A disk changes bytes that were flushed: the other replicas have them."""

from typing import TYPE_CHECKING

from support.simulation.scenario import SEEDS, Scenario

if TYPE_CHECKING:
    from sawlog.core.ids import NodeId
    from sawlog.simulation.simulated_disk import SimulatedDisk

SEGMENT = f"simulated-0/{0:020}.log"
IN_THE_FIRST_BATCH = 70


def flip_a_bit(disk: "SimulatedDisk") -> None:
    disk.flip_bit(SEGMENT, IN_THE_FIRST_BATCH, 0)


@SEEDS
def test_a_leader_with_a_corrupt_batch_is_replaced_and_healed(seed: int) -> None:
    """A follower with an empty disk needs the batch. It used to fetch it again and again, and was
    never in sync."""
    scenario = Scenario(seed)
    leaders: list[NodeId] = []

    def corrupt() -> None:
        leaders.append(scenario.leader())
        flip_a_bit(scenario.cluster.nodes[scenario.leader()].disk)
        follower = next(n for n in scenario.cluster.nodes.values() if n.id != scenario.leader())
        follower.kill()
        follower.wipe()
        scenario.at(7_000, follower.boot)

    scenario.at(2_000, corrupt)
    scenario.at(13_500, lambda: leaders.append(scenario.leader()))
    result = scenario.ends_well()
    assert leaders[0] != leaders[1]
    truncated = f"simulated-0 on broker {leaders[0]}: follower in epoch 2, log end 0"
    assert any(truncated in line for line in result.story)
    healed, sound = (scenario.cluster.nodes[node].disk.read_file(SEGMENT) for node in leaders)
    assert healed[: IN_THE_FIRST_BATCH + 1] == sound[: IN_THE_FIRST_BATCH + 1]
