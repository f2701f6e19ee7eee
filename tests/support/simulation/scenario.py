"""A simulation whose faults a test chooses, also by the roles that brokers have by then."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from sawlog.cluster.znodes import PartitionState
from sawlog.core.ids import NodeId
from sawlog.simulation.cluster_profile import ClusterProfile
from sawlog.simulation.history.history import ACKS_ALL, Outcome
from sawlog.simulation.world.faults import Fault, FaultKind
from sawlog.simulation.world.simulated_node import SimulatedNode
from sawlog.simulation.world.simulation import RunResult, Simulation, SimulationOptions

OPTIONS = SimulationOptions(brokers=3, duration_ms=14_000, profile=ClusterProfile())
SEEDS = pytest.mark.parametrize(
    "seed", [pytest.param(1, marks=pytest.mark.long), pytest.param(0, marks=pytest.mark.soak)]
)
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


class Roles(NamedTuple):
    """A partition of the simulated topic, its leader, and the other brokers of a cluster of three:
    one is the controller."""

    partition: int
    leader: SimulatedNode
    follower: SimulatedNode
    controller: SimulatedNode


class Scenario(Simulation):
    """Times count from the start of the brokers, which serve after a fraction of a second."""

    def __init__(
        self,
        seed: int,
        faults: Sequence[Fault] = (),
        options: SimulationOptions = OPTIONS,
    ) -> None:
        super().__init__(seed, options, list(faults))

    def at(self, at_ms: int, action: Callable[[], None]) -> None:
        self.cluster.schedule.after(at_ms, action)

    def inject(self, kind: FaultKind, node: NodeId, duration_ms: int, other: int = 0) -> None:
        """Let a fault begin now."""
        self.injector.schedule([Fault(0, kind, node, duration_ms, other)])

    def controllers(self) -> list[NodeId]:
        """The brokers that take themselves for the controller, the present one last."""
        stat = self.cluster.service.tree.exists("/controller")
        owner = 0 if stat is None else stat.owner

        def is_present(node: SimulatedNode) -> bool:
            return node.store is not None and node.store.session_id == owner

        active = [
            node
            for node in self.cluster.nodes.values()
            if node.broker is not None and node.broker.components.member.is_controller
        ]
        return [node.id for node in sorted(active, key=is_present)]

    def roles(self) -> Roles:
        """A partition whose leader is not the controller."""
        controller = self.controllers()[-1]
        partition = next(index for index in range(3) if self.leader(index) != controller)
        leader, nodes = self.leader(partition), self.cluster.nodes
        follower = next(node for node in nodes if node not in (leader, controller))
        return Roles(partition, nodes[leader], nodes[follower], nodes[controller])

    def state(self, partition: int = 0) -> PartitionState:
        """The stored state of a partition of the simulated topic."""
        for key, known in self.observer.partitions.items():
            if (key.name.topic, key.name.partition) == ("simulated", partition) and known.stored:
                return known.stored
        raise AssertionError(f"partition {partition} has no state")

    def leader(self, partition: int = 0) -> NodeId:
        return self.state(partition).leader

    def acknowledged_between(self, start_ms: int, end_ms: int) -> set[int]:
        """The partitions of the acks=all writes that succeeded in this time."""
        return {
            write.partition
            for write in self.workload.history.writes
            if write.acks == ACKS_ALL
            and write.outcome is Outcome.ACKNOWLEDGED
            and start_ms < write.ended_ms < end_ms
        }

    def ends_well(self) -> RunResult:
        """Run to the end: no guarantee broke, and the cluster was whole again."""
        result = self.run()
        story = "\n".join([str(result.violation), *result.story[-40:]])
        assert result.violation is None, story
        return result
