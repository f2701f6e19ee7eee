"""Replicas that leave a partition and come back to it, with a new log.

Found by seed 286 (three brokers, 20 seconds): a broker was moved away from a partition and back
within a third of a second. Its new log was empty, but a fetch of the old one was still parked at
the leader, in the same leader epoch and of the same broker epoch: the leader counted its offset and
took the empty replica into the in-sync set. A reassignment that adds a replica now begins a new
leader epoch.
"""

from functools import partial

import pytest

from sawlog.core.ids import NodeId
from sawlog.simulation.clients.admin_client import AdminClient
from sawlog.simulation.world.workload import TOPIC
from support.simulation.scenario import ONE, THREE, TWO, Scenario

EVERY_MS = 500


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3, 7])
def test_fetches_of_an_earlier_log_do_not_count_for_a_replica_that_came_back(seed: int) -> None:
    scenario = Scenario(seed)
    admin = AdminClient(scenario.cluster, "mover", TOPIC, seed)

    def move(replicas: list[NodeId]) -> None:
        for partition in range(3):
            admin.reassign(ONE, TOPIC, partition, replicas)

    for place in range(20):
        target = [THREE, ONE] if place % 2 else [THREE, TWO]
        scenario.at(2_000 + EVERY_MS * place, partial(move, target))
    scenario.ends_well()
