"""Assignors of classic groups, which the leader of a group runs.

An assignor is a pure function of the members and the topics' partition counts. It assigns every
subscribed partition to one of its subscribers; the cooperative one holds back, for one round, what
another member still owns. `range` and `roundrobin` decide as Kafka's Java client does, so that the
leader may be either.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition


class Subscriber(NamedTuple):
    """A member's subscription in JoinGroup; `owned` is of its `generation`."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1
    instance_id: str | None = None


Subscribers = Mapping[str, Subscriber]
Assignments = dict[str, set[TopicPartition]]
Assignor = Callable[[Subscribers, Mapping[str, int]], Assignments]


def range_(members: Subscribers, sizes: Mapping[str, int]) -> Assignments:
    """Assign each member a contiguous range of each topic's partitions."""
    assignments: Assignments = {member: set() for member in members}
    for topic, readers in _subscribers(members, sizes).items():
        size, longer = divmod(sizes[topic], len(readers))
        start = 0
        for position, member in enumerate(readers):
            end = start + size + (position < longer)
            assignments[member].update(partition_of(topic, index) for index in range(start, end))
            start = end
    return assignments


def roundrobin(members: Subscribers, sizes: Mapping[str, int]) -> Assignments:
    """Assign all partitions in turn, skipping members that do not subscribe to the topic."""
    assignments: Assignments = {member: set() for member in members}
    order = _sorted_members(members)
    turn = 0
    for partition in _partitions(_subscribers(members, sizes), sizes):
        while partition.topic not in members[order[turn % len(order)]].topics:
            turn += 1
        assignments[order[turn % len(order)]].add(partition)
        turn += 1
    return assignments


def cooperative_sticky(members: Subscribers, sizes: Mapping[str, int]) -> Assignments:
    """Balance the partition counts of members, which keep as many partitions as possible.

    A partition that has to move is not assigned in this round: its owner gives it up and rejoins,
    and the next round assigns it.
    """
    readers = _subscribers(members, sizes)
    assignments = _kept(members, sizes)
    free = set(_partitions(readers, sizes)) - set[TopicPartition]().union(*assignments.values())
    for partition in sorted(free, key=lambda each: (len(readers[each.topic]), each)):
        least = min(readers[partition.topic], key=lambda member: len(assignments[member]))
        assignments[least].add(partition)
    _balance(readers, assignments)
    for member, partitions in assignments.items():
        for other, subscriber in members.items():
            if other != member:
                partitions.difference_update(subscriber.owned)
    return assignments


def _kept(members: Subscribers, sizes: Mapping[str, int]) -> Assignments:
    """Return the partitions that each member may keep.

    Of several claimants the one with the latest generation keeps a partition; none if two have the
    same generation.
    """
    claims: dict[TopicPartition, list[str]] = defaultdict(list)
    for member, subscriber in members.items():
        for partition in subscriber.owned:
            topic, index = partition
            if topic in subscriber.topics and index < sizes.get(topic, 0):
                claims[partition].append(member)
    kept: Assignments = {member: set() for member in members}
    for partition, claimants in claims.items():
        latest = max(members[member].generation for member in claimants)
        owners = [member for member in claimants if members[member].generation == latest]
        if len(owners) == 1:
            kept[owners[0]].add(partition)
    return kept


def _balance(readers: Mapping[str, list[str]], assignments: Assignments) -> None:
    """Move partitions from the members with most; each move evens the loads, so it ends."""
    has_moved = True
    while has_moved:
        has_moved = False
        for member in sorted(assignments, key=lambda each: -len(assignments[each])):
            for partition in sorted(assignments[member], reverse=True):
                least = min(readers[partition.topic], key=lambda each: len(assignments[each]))
                if len(assignments[least]) + 1 < len(assignments[member]):
                    assignments[member].remove(partition)
                    assignments[least].add(partition)
                    has_moved = True


def _sorted_members(members: Subscribers) -> list[str]:
    """Sort members, static ones first by instance id: they keep their place under a new id."""

    def sort_key(member: str) -> tuple[bool, str, str]:
        instance_id = members[member].instance_id
        return instance_id is None, instance_id or "", member

    return sorted(members, key=sort_key)


def _subscribers(members: Subscribers, sizes: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the sorted subscribers of each existing topic."""
    readers: dict[str, list[str]] = defaultdict(list)
    for member in _sorted_members(members):
        for topic in members[member].topics:
            if sizes.get(topic):
                readers[topic].append(member)
    return dict(sorted(readers.items()))


def _partitions(topics: Iterable[str], sizes: Mapping[str, int]) -> list[TopicPartition]:
    return [partition_of(topic, index) for topic in topics for index in range(sizes[topic])]


RANGE, ROUNDROBIN, COOPERATIVE_STICKY = "range", "roundrobin", "cooperative-sticky"
ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {RANGE: range_, ROUNDROBIN: roundrobin, COOPERATIVE_STICKY: cooperative_sticky}
)
COOPERATIVE = frozenset({COOPERATIVE_STICKY})
"""If a group uses only these, members keep reading through a rebalance (KIP-429)."""
