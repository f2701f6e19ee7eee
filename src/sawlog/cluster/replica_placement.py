"""Places the replicas of new partitions: round robin over racks from a random start.

    racks a: 1 2, b: 3 4, factor 2, start 0  ->  1 3 | 3 2 | 2 4 | 4 1 | 1 3 ...

The replicas of a partition are spread over as many racks as possible, and leaders evenly over
brokers. The host is the rack of a broker without `broker.rack`: brokers on one host share a failure
domain.
"""

from collections.abc import Container, Iterable, Sequence
from itertools import zip_longest

from sawlog.cluster.metadata_image import BrokerImage
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId
from sawlog.core.ports import Random


def place(
    brokers: Iterable[BrokerImage],
    partitions: int,
    replication_factor: int,
    random: Random,
    *,
    first_partition: int = 0,
) -> tuple[tuple[NodeId, ...], ...]:
    """Return the replicas of each new partition, preferred leader first. Brokers that shut down are
    not chosen."""
    ring = _alternating_racks(broker for broker in brokers if not broker.is_shutting_down)
    if not ring:
        raise _impossible(replication_factor, "All brokers are currently fenced.")
    if replication_factor > len(ring):
        raise _impossible(
            replication_factor,
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {len(ring)} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )
    start = random.below(len(ring)) + first_partition
    return tuple(_replicas(ring, start + index, replication_factor) for index in range(partitions))


def check_replicas(
    brokers: Container[NodeId], nodes: Sequence[int], factor: int | None
) -> tuple[NodeId, ...]:
    """Check and return the replicas that a client chose for one partition; `factor` is the number
    that the other partitions have."""
    start = "The manual partition assignment includes"
    if not nodes:
        raise bad_assignment(f"{start} an empty replica list.")
    ordered = sorted(nodes)
    for position, node in enumerate(ordered):
        if NodeId(node) not in brokers:
            raise bad_assignment(f"{start} broker {node}, but no such broker is registered.")
        if position and ordered[position - 1] == node:
            raise bad_assignment(f"{start} the broker {node} more than once.")
    if factor is not None and len(nodes) != factor:
        raise bad_assignment(
            f"{start} a partition with {len(nodes)} replica(s), but this is not consistent "
            f"with previous partitions, which have {factor} replica(s)."
        )
    return tuple(NodeId(node) for node in nodes)


def bad_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _impossible(replication_factor: int, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): {reason}",
    )


def _alternating_racks(brokers: Iterable[BrokerImage]) -> list[BrokerImage]:
    """Return all brokers, with neighbours on different racks as far as possible."""
    racks: dict[str, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.failure_domain, []).append(broker)
    return [
        broker
        for row in zip_longest(*(racks[rack] for rack in sorted(racks)))
        for broker in row
        if broker is not None
    ]


def _replicas(ring: list[BrokerImage], start: int, count: int) -> tuple[NodeId, ...]:
    """Choose brokers from `start` on around the ring: first one per rack, then the others.

    With every full turn the followers are shifted by one, so that a leader's followers vary.
    """
    turn, first = divmod(start, len(ring))
    others = [ring[(first + 1 + i) % len(ring)] for i in range(len(ring) - 1)]
    if others:
        shift = turn % len(others)
        others = others[shift:] + others[:shift]
    chosen = [ring[first]]
    racks = {ring[first].failure_domain}
    for broker in others:
        if len(chosen) < count and broker.failure_domain not in racks:
            chosen.append(broker)
            racks.add(broker.failure_domain)
    for broker in others:
        if len(chosen) < count and broker not in chosen:
            chosen.append(broker)
    return tuple(broker.id for broker in chosen)
