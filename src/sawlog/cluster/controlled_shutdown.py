"""Controlled shutdown: leaders move to other in-sync replicas before their broker stops.

The broker marks its registration. The controller elects other members of the in-sync sets, takes
the broker out of all sets that have another member, and does not elect it again. Partitions without
another in-sync replica stay. A broker whose data directory fails steps aside in the same way.
"""

from collections.abc import Callable

from sawlog.cluster.cluster_member import ClusterMember
from sawlog.cluster.metadata_image import MetadataImage, PartitionImage
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NodeId
from sawlog.core.ports import Timer

HAND_OVER_MS = 10_000
"""How long a stop waits for the controller."""
LINGER_MS = 500
"""How long a broker that led partitions serves after they have moved. A client that refreshes its
metadata in this time sees the new leaders and a live broker. librdkafka, if it sees the new leaders
and that the old one is gone in the same response, may lose them until its next refresh."""
logger = EventLogger("sawlog.cluster.controlled_shutdown")


def hand_over(
    member: ClusterMember, timer: Timer, timeout_ms: int, done: Callable[[], None]
) -> None:
    """Announce the shutdown; `done` is called when no leader or in-sync member is left here that
    another broker can replace, LINGER_MS later if leaders have moved, and after the timeout."""
    node = member.node_id
    has_led = leads(member.image, node)

    def announced(is_known: bool) -> None:
        if is_known:
            member.when(lambda image: not movable(image, node), timeout_ms, moved)
        else:
            done()

    def moved(is_done: bool) -> None:
        if not is_done:
            left = movable(member.image, node)
            logger.warning("stopping before all leaders have moved", partitions=left)
        if is_done and has_led:
            timer.after(LINGER_MS, done)
        else:
            done()

    if movable(member.image, node):
        member.announce_shutdown(announced)
    else:
        done()


def step_aside(member: ClusterMember) -> None:
    """Let other brokers lead for good: this one cannot write any more, because its data directory
    is offline. It stays out of elections and in-sync sets until it is restarted."""
    if len(member.image.brokers) > 1:
        logger.warning("the data directory is offline: other brokers are to lead")
        member.announce_shutdown(lambda _: None)


def leads(image: MetadataImage, node: NodeId) -> bool:
    return any(
        partition.leader == node
        for topic in image.topics.values()
        for partition in topic.partitions
    )


def movable(image: MetadataImage, node: NodeId) -> int:
    """Count the partitions in whose in-sync set this broker is with another live member."""
    return sum(
        _is_replaceable(image, partition, node)
        for topic in image.topics.values()
        for partition in topic.partitions
        if node in partition.isr
    )


def _is_replaceable(image: MetadataImage, partition: PartitionImage, node: NodeId) -> bool:
    for other in partition.members:
        broker = image.brokers.get(other.node)
        if other.node == node or broker is None or broker.is_shutting_down:
            continue
        if other.is_of(broker):
            return True
    return False
