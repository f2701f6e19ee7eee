"""A bit of a flushed record flips on one disk: its batch is never taken for a good one.

The plan of seeds has no such fault yet: a leader with a damaged record goes on leading, and its
consumers and followers cannot pass that record until another broker leads.
"""

from random import Random as Generator

import pytest

from sawlog.core.ids import NodeId
from sawlog.protocol.record_batch import batches_in, crc_matches
from sawlog.simulation.history.read_values import check_read_values
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


@pytest.mark.long
def test_a_flipped_bit_of_a_leader_is_seen_by_readers_and_spreads_nowhere() -> None:
    """Another broker comes back with an empty disk and copies what the leader has."""
    scenario = Scenario(1)
    damaged: list[NodeId] = []

    def damage() -> None:
        leader = scenario.leader(0)
        scenario.injector.flip_bit(scenario.cluster.nodes[leader], 0, Generator(1))
        damaged.append(leader)
        other = next(node for node in scenario.cluster.nodes if node != leader)
        scenario.inject(FaultKind.EMPTY_DISK, other, 300)

    scenario.at(3_000, damage)
    result = scenario.run()
    assert result.violation is None or result.violation.guarantee == "liveness", result.violation
    assert [node for node in scenario.cluster.nodes if has_damage(scenario, node, 0)] == damaged
    check_read_values(scenario.workload.history)
