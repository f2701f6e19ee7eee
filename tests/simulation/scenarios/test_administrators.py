"""Topics are deleted and created again, leaders moved and configs changed, while brokers fail."""

from functools import partial

import pytest

from sawlog.cluster.znodes import decode_assignment, topic_path
from sawlog.simulation.clients.topic_replacer import REPLACED_TOPIC
from sawlog.simulation.world.faults import Fault, FaultKind
from support.simulation.planted_faults import MISSED_REPLACEMENT
from support.simulation.scenario import ONE, SEEDS, THREE, Scenario


@SEEDS
def test_a_broker_that_missed_the_replacement_of_a_topic_gives_up_its_logs(seed: int) -> None:
    """KIP-516: without topic ids it served the records of the deleted topic in the new one."""
    scenario = Scenario(seed, MISSED_REPLACEMENT)
    ends: list[int] = []

    def look() -> None:
        broker = scenario.cluster.nodes[ONE].broker
        assert broker is not None
        ends.extend(
            replica.log.end_offset
            for (topic, _), replica in broker.replicas.by_partition.items()
            if topic == REPLACED_TOPIC
        )

    scenario.at(2_990, look)
    scenario.ends_well()
    names = scenario.cluster.nodes[ONE].disk.list("")
    assert ends
    assert all(ends), "its logs had records"
    assert sum(REPLACED_TOPIC in name and name.endswith("-stray") for name in names) == len(ends)


@SEEDS
def test_a_broker_that_is_not_the_controller_carries_out_preferred_elections(seed: int) -> None:
    scenario = Scenario(seed)
    leaders: list[list[bool]] = []

    def look() -> None:
        tree = scenario.cluster.service.tree
        replicas = decode_assignment(tree.get(topic_path("simulated"))).replicas
        leaders.append([scenario.leader(index) == replicas[index][0] for index in range(3)])

    def elect() -> None:
        look()
        broker = next(n for n in scenario.cluster.nodes if n not in scenario.controllers())
        scenario.inject(FaultKind.PREFERRED_ELECTION, broker, 0)

    for place, node in enumerate(scenario.cluster.nodes):
        expire = partial(scenario.inject, FaultKind.EXPIRED_SESSION, node, 0)
        scenario.at(1_000 + 300 * place, expire)
    scenario.at(3_000, elect)
    scenario.at(3_500, look)
    scenario.ends_well()
    assert not all(leaders[0]), "every expired session moved leaders"
    assert all(leaders[1])


@pytest.mark.long
def test_a_config_that_changed_while_a_broker_was_down_reaches_its_logs() -> None:
    scenario = Scenario(1, [Fault(1_000, FaultKind.KILL, ONE, 3_000)])
    before: list[int] = []

    def segment_bytes() -> list[int]:
        return [
            node.broker.replicas.by_partition["simulated", 0].log.config.segment_bytes
            for node in scenario.cluster.nodes.values()
            if node.broker is not None
        ]

    def change() -> None:
        before.extend(segment_bytes())
        scenario.injector.admin.change_config(THREE, "simulated", "internal.segment.bytes", "1500")

    scenario.at(2_000, change)
    scenario.ends_well()
    assert before == [4_000, 4_000]
    assert segment_bytes() == [1_500, 1_500, 1_500]
