"""Changes of a simulated broker's metadata image, as a controller on another broker makes them."""

from dataclasses import replace
from typing import Any

from sawlog.cluster.metadata_image import BrokerImage
from sawlog.core.ids import NodeId, TopicName
from sawlog.replication.replica import Replica
from sawlog.simulation.simulated_broker import SimulatedMachine
from support.broker.requests import TOPIC

OTHER = NodeId(2)
THIRD = NodeId(3)


def change_partition(
    machine: SimulatedMachine, topic: str = TOPIC, index: int = 0, **changes: Any
) -> None:
    """Apply an image in which the state of a partition, a topic's first one, has these fields."""
    broker = machine.broker
    old = broker.metadata.image
    before = old.topics[TopicName(topic)]
    states = list(before.partitions)
    states[index] = states[index]._replace(**changes)
    after = replace(before, partitions=tuple(states))
    error = broker.try_apply(old, replace(old, topics={**old.topics, before.name: after}))
    assert error is None, error


def join_brokers(machine: SimulatedMachine, *nodes: NodeId, epoch: int = 1_000) -> None:
    """Apply an image with these brokers besides the simulated one, each in a rack of its own."""
    broker = machine.broker
    old = broker.metadata.image
    joined = {
        node: BrokerImage(node, f"host-{node}", 9092, f"rack-{node}", epoch) for node in nodes
    }
    error = broker.try_apply(old, replace(old, brokers={**old.brokers, **joined}))
    assert error is None, error


def replicate(
    machine: SimulatedMachine, *isr: NodeId, topic: str = TOPIC, index: int = 0
) -> Replica:
    """Give a partition, the first one, replicas on three brokers, the simulated one as the leader,
    and the in-sync set of the leader and these nodes; returns the leader's replica."""
    own = machine.broker.components.node_id
    join_brokers(machine, OTHER, THIRD)
    state = machine.broker.metadata.image.partition(topic, index)
    assert state is not None
    change_partition(
        machine,
        topic,
        index,
        replicas=(own, OTHER, THIRD),
        isr=(own, *isr),
        members=(),
        partition_epoch=state.partition_epoch + 1,
    )
    return machine.broker.replicas.leader(topic, index)
