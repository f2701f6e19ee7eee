"""The health of a cluster: its brokers, and the partitions that need attention. Pure."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from sawlog.client.admin.reassignments import OngoingReassignment
from sawlog.client.net.metadata import Node, Partition, Topic
from sawlog.core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """A broker that is registered, or (`node` is None) has replicas and is not registered."""

    id: int
    node: Node | None
    is_controller: bool
    leaders: int
    replicas: int
    out_of_sync: int  # of its replicas
    has_offline_directory: bool

    @property
    def state(self) -> str:
        if self.node is None:
            return "down"
        if self.has_offline_directory:
            return "log directory offline"
        return "controller" if self.is_controller else "up"


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    name: TopicPartition
    partition: Partition
    min_in_sync: int
    reassignment: OngoingReassignment | None
    is_internal: bool  # a topic of the brokers, such as __consumer_offsets

    @property
    def is_offline(self) -> bool:
        return self.partition.leader < 0

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.partition.in_sync) < self.min_in_sync

    @property
    def is_under_replicated(self) -> bool:
        """Replicas that a reassignment adds are not missed before they are in sync."""
        adding = self.reassignment.adding if self.reassignment else ()
        present = set(self.partition.replicas) - (set(adding) - set(self.partition.in_sync))
        return len(self.partition.in_sync) < len(present)

    @property
    def has_preferred_leader(self) -> bool:
        return self.partition.leader == self.partition.replicas[0]

    @property
    def problem(self) -> str:
        """The most severe problem, or an empty string."""
        if self.is_offline:
            return "offline"
        if self.is_under_min_isr:
            return "under min ISR"
        return "under-replicated" if self.is_under_replicated else ""

    @property
    def rank(self) -> tuple[bool, bool, bool, bool]:
        """Sorts the most severe problem first, and internal topics last within one."""
        return (
            not self.is_offline,
            not self.is_under_min_isr,
            not self.is_under_replicated,
            self.is_internal,
        )


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    brokers: list[BrokerHealth]
    partitions: list[PartitionHealth]

    @property
    def problems(self) -> list[PartitionHealth]:
        """The partitions that need attention, those with the most severe problem first."""
        found = [each for each in self.partitions if each.problem]
        return sorted(found, key=lambda each: each.rank)

    @property
    def offline(self) -> list[PartitionHealth]:
        return [each for each in self.partitions if each.is_offline]

    @property
    def under_min_isr(self) -> list[PartitionHealth]:
        return [each for each in self.partitions if each.is_under_min_isr]

    @property
    def under_replicated(self) -> list[PartitionHealth]:
        return [each for each in self.partitions if each.is_under_replicated]

    @property
    def missing_brokers(self) -> list[int]:
        return [broker.id for broker in self.brokers if broker.node is None]

    @property
    def is_healthy(self) -> bool:
        has_failed = any(broker.has_offline_directory for broker in self.brokers)
        return not (has_failed or self.missing_brokers or self.problems)


def assess(
    nodes: Iterable[Node],
    controller: int,
    topics: Iterable[Topic],
    min_in_sync: Mapping[str, int],
    reassignments: Mapping[TopicPartition, OngoingReassignment],
    offline_directories: Container[int] = (),
) -> ClusterHealth:
    """`offline_directories` has the brokers that report a log directory as offline."""
    partitions = [
        PartitionHealth(
            name := TopicPartition(topic.name, index),
            partition,
            min_in_sync.get(topic.name, 1),
            reassignments.get(name),
            topic.is_internal,
        )
        for topic in topics
        for index, partition in topic.partitions.items()
    ]
    registered = {int(node.id): node for node in nodes}
    leaders = Counter(int(each.partition.leader) for each in partitions)
    replicas = Counter(node for each in partitions for node in each.partition.replicas)
    in_sync = Counter(node for each in partitions for node in each.partition.in_sync)
    brokers = [
        BrokerHealth(
            number,
            registered.get(number),
            number == controller,
            leaders[number],
            replicas[number],
            replicas[number] - in_sync[number],
            number in offline_directories,
        )
        for number in sorted(registered.keys() | replicas.keys())
    ]
    return ClusterHealth(brokers, partitions)
