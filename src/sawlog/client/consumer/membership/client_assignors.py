"""Who reads what in a classic group, worked out by the member that leads it.

An assignor is a function of the members and of the topics' sizes, nothing else. It gives every
partition that somebody subscribes to, once, to one of its subscribers; the cooperative one holds
back, for one round, what another member still has. `range` and `roundrobin` decide as Kafka's Java
client does, so that it does not matter who leads.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition


class Subscriber(NamedTuple):
    """What a member told of itself when it joined; `owned` as of the generation that it names."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1
    instance_id: str | None = None


Subscribers = Mapping[str, Subscriber]
Assignments = dict[str, set[TopicPartition]]
Assignor = Callable[[Subscribers, Mapping[str, int]], Assignments]


def range_(members: Subscribers, sizes: Mapping[str, int]) -> Assignments:
    """Of each topic everybody has one run of partitions."""
    assignments: Assignments = {member: set() for member in members}
    for topic, readers in _readers(members, sizes).items():
        size, longer = divmod(sizes[topic], len(readers))
        start = 0
        for position, member in enumerate(readers):
            end = start + size + (position < longer)
            assignments[member].update(partition_of(topic, index) for index in range(start, end))
            start = end
    return assignments


def roundrobin(members: Subscribers, sizes: Mapping[str, int]) -> Assignments:
    """All partitions are dealt out like cards; who does not read the topic is passed over."""
    assignments: Assignments = {member: set() for member in members}
    order = _in_order(members)
    turn = 0
    for partition in _partitions(_readers(members, sizes), sizes):
        while partition.topic not in members[order[turn % len(order)]].topics:
            turn += 1
        assignments[order[turn % len(order)]].add(partition)
        turn += 1
    return assignments


def cooperative_sticky(members: Subscribers, sizes: Mapping[str, int]) -> Assignments:
    """Nobody could get a partition from one who has two more, and everybody keeps what it can.

    What has to move is given to nobody in this round: its owner lets go of it and joins again, and
    the next round gives it away.
    """
    readers = _readers(members, sizes)
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
    """What each may keep: of several who say that they own a partition, the one that was given it
    last; nobody where two were at once.
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
    """Moves partitions from those who have most; each move makes loads more equal, so it ends."""
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


def _in_order(members: Subscribers) -> list[str]:
    """Static members come first, by their instance's name, so that they keep their place when they
    come back under a new id.
    """

    def place(member: str) -> tuple[bool, str, str]:
        instance_id = members[member].instance_id
        return instance_id is None, instance_id or "", member

    return sorted(members, key=place)


def _readers(members: Subscribers, sizes: Mapping[str, int]) -> dict[str, list[str]]:
    """The subscribers of each topic that exists, all in order."""
    readers: dict[str, list[str]] = defaultdict(list)
    for member in _in_order(members):
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
"""With these alone members keep what they keep while the group rebalances (KIP-429)."""
