"""A bit of a flushed record flips on one disk: its batch is never taken for a good one.

The plan of seeds has no such fault: a leader learns of the damage when a follower needs the batch,
or compaction reads it, not from its consumers, which cannot pass it until then.
"""

from random import Random as Generator

from sawlog.core.ids import NodeId
from sawlog.protocol.record_batch import batches_in, crc_matches
from sawlog.simulation.world.faults import FaultKind
from sawlog.simulation.world.workload import TOPIC
from support.simulation.scenario import SEEDS, Scenario

LIMIT_BYTES = 1 << 20


def has_damage(scenario: Scenario, node: NodeId, partition: int) -> bool:
    """Whether a log has a batch that does not match its CRC."""
    broker = scenario.cluster.nodes[node].broker
    assert broker is not None
    log = broker.replicas.by_partition[TOPIC, partition].log
    offset = log.start_offset
    while offset < log.end_offset:
        piece = log.read(offset, LIMIT_BYTES, limit_offset=log.end_offset, whole_first_batch=True)
        assert piece is not None
        view = memoryview(piece.read())
        for position, header in batches_in(view):
            if not crc_matches(view, header, position):
                return True
            offset = max(offset, header.next_offset)
    return False


@SEEDS
def test_a_flipped_bit_of_a_follower_harms_nothing(seed: int) -> None:
    scenario = Scenario(seed)
    damaged: list[NodeId] = []

    def damage() -> None:
        nodes = scenario.cluster.nodes
        follower = next(node for node in nodes if node != scenario.leader(0))
        scenario.injector.flip_bit(nodes[follower], 0, Generator(seed))
        damaged.append(follower)

    scenario.at(3_000, damage)
    scenario.ends_well()
    assert [node for node in scenario.cluster.nodes if has_damage(scenario, node, 0)] == damaged
    assert scenario.workload.history.corrupt_responses == 0


@SEEDS
def test_a_flipped_bit_of_a_leader_is_never_read_as_a_good_record(seed: int) -> None:
    """A consumer that comes later cannot pass the batch, until a follower with an empty disk needs
    it, too: then another replica leads, and the damaged one fetches the records again."""
    scenario = Scenario(seed)
    history = scenario.workload.history
    seen_by_readers: list[int] = []

    def damage() -> None:
        leader = scenario.cluster.nodes[scenario.leader()]
        scenario.injector.flip_bit(leader, 0, Generator(seed))
        scenario.workload.start_late_consumer()

    def lose_a_follower() -> None:
        seen_by_readers.append(history.corrupt_responses)
        follower = next(node for node in scenario.cluster.nodes if node != scenario.leader())
        scenario.inject(FaultKind.EMPTY_DISK, follower, 300)

    scenario.at(3_000, damage)
    scenario.at(5_000, lose_a_follower)
    scenario.ends_well()
    assert seen_by_readers[0] > 0
    assert not any(has_damage(scenario, node, 0) for node in scenario.cluster.nodes)
