"""Guarantee 17: a coordinator lasts only as long as the leader epoch in which it was loaded."""

from typing import TYPE_CHECKING

from sawlog.cluster.internal_topics import CONSUMER_OFFSETS
from sawlog.coordinator.runtime import CoordinatorRuntime, State
from sawlog.core.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from sawlog.replication.roles import Role
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from sawlog.groups.group_machine import GroupMachine
    from sawlog.simulation.world.simulated_node import SimulatedNode


class Coordinators:
    """Remembers the leader epoch in which each coordinator was first seen."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[NodeId, int], tuple[CoordinatorRuntime[GroupMachine], int]] = {}

    def broker_ran(self, node: "SimulatedNode") -> None:
        assert node.broker is not None
        for index, runtime in node.broker.components.groups.runtimes.items():
            if runtime.state is State.CLOSED:
                continue
            name = TopicPartition(TopicName(CONSUMER_OFFSETS.name), PartitionIndex(index))
            replica = node.broker.replicas.by_partition.get(name)
            epoch = -1 if replica is None else replica.leader_epoch
            known, first = self._epochs.get((node.id, index), (None, -1))
            if known is not runtime:
                first = epoch
                self._epochs[node.id, index] = (runtime, epoch)
            if replica is None or replica.role is not Role.LEADER or epoch != first:
                raise Violation(
                    "17",
                    f"{name} on broker {node.id}: the coordinator of epoch {first} is "
                    f"{runtime.state.value}; the replica is "
                    + (f"{replica.role.value} in epoch {epoch}" if replica else "gone"),
                )
