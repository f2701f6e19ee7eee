"""The uniform assignor: balanced first, then as sticky as possible.

With a homogeneous subscription (all members subscribe to the same topics) the share of each member
is known before a partition moves. With a heterogeneous one the unassigned partitions are assigned
first, and then partitions move between members topic by topic.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import cycle, islice
from typing import TYPE_CHECKING

from sawlog.core.java_hash import string_hash, table_order, uuid_hash, uuid_order
from sawlog.groups.consumer.assignor import check_topics

if TYPE_CHECKING:
    from sawlog.core.ids import TopicId
    from sawlog.groups.consumer.assignor import Assignment, MemberSpecs

MAX_ROUNDS = 16
"""How often the heterogeneous case goes over all topics; each round at least halves the imbalance.
"""

MAX_CACHED_IDS = 10_000
"""Hashes of this many member ids are cached: every assignment needs all of them."""

MAX_CACHED_ID_LENGTH = 300
"""Longer ids are not cached: a client may choose any id."""

_cached_hash = lru_cache(MAX_CACHED_IDS)(string_hash)


def _member_hash(member: str) -> int:
    return _cached_hash(member) if len(member) <= MAX_CACHED_ID_LENGTH else string_hash(member)


def _in_table_order(members: "MemberSpecs") -> list[str]:
    return table_order(sorted(members), _member_hash)


def uniform(members: "MemberSpecs", partitions: Mapping["TopicId", int]) -> dict[str, "Assignment"]:
    """Assign to all members the same number of partitions, give or take one; each member keeps what
    it had as far as possible.

    With a heterogeneous subscription no partition could move to a subscriber that has at least two
    partitions fewer than its owner.
    """
    check_topics(members, partitions)
    if len({spec.topics for spec in members.values()}) > 1:
        return _Heterogeneous(members, partitions).assign()
    return _homogeneous(members, partitions)


# Homogeneous subscriptions


def _homogeneous(
    members: "MemberSpecs", partitions: Mapping["TopicId", int]
) -> dict[str, "Assignment"]:
    topics = next((spec.topics for spec in members.values()), frozenset())
    if not topics:
        return {member: {} for member in members}
    held, taken = _kept_claims(members, partitions)
    free: list[tuple[TopicId, int]] = []
    for topic in table_order(sorted(topics), uuid_hash, copied=True):
        not_free = taken.get(topic, ())
        if len(not_free) < partitions[topic]:
            free += [(topic, index) for index in range(partitions[topic]) if index not in not_free]
    share, extras = divmod(sum(partitions[topic] for topic in topics), len(members))
    wanting: list[tuple[str, int]] = []
    for position, member in enumerate(_in_table_order(members)):
        limit = share + 1 if extras else share
        room = limit - sum(map(len, held[member].values()))
        if room < 0:
            _trim(held[member], limit, free)
            room = 0
        if extras:
            if room and len(members) - position > extras:
                room -= 1  # a later member may have the extra partition already
            else:
                extras -= 1
        if room:
            wanting.append((member, room))
    start = 0
    for member, room in wanting:
        _add(held[member], free[start : start + room])
        start += room
    return held


def _trim(held: "Assignment", limit: int, free: list[tuple["TopicId", int]]) -> None:
    """Move the partitions of a member beyond the limit to `free`."""
    room = limit
    for topic in table_order(sorted(held), uuid_hash):
        claims = held[topic]
        if len(claims) <= room:
            room -= len(claims)
            continue
        ordered = table_order(sorted(claims), int, copied=True)
        if room:
            held[topic] = frozenset(ordered[:room])
        else:
            del held[topic]
        free.extend((topic, index) for index in ordered[room:])
        room = 0


def _add(held: "Assignment", more: Sequence[tuple["TopicId", int]]) -> None:
    by_topic: dict[TopicId, list[int]] = {}
    for topic, index in more:
        by_topic.setdefault(topic, []).append(index)
    for topic, indexes in by_topic.items():
        held[topic] = held[topic].union(indexes) if topic in held else frozenset(indexes)


def _kept_claims(
    members: "MemberSpecs", partitions: Mapping["TopicId", int]
) -> tuple[dict[str, "Assignment"], "Assignment"]:
    """Return the current partitions of each member that it still subscribes to, and their union.

    An assignment that a classic client computed, before the group was upgraded, may assign a
    partition twice or name one that does not exist: the first member by id keeps it, or none.
    """
    kept: dict[str, Assignment] = {}
    by_topic: dict[TopicId, list[frozenset[int]]] = {}
    for member, (topics, current, *_) in members.items():
        held = kept[member] = {}
        for topic, claims in current.items():
            if claims and topic in topics:
                held[topic] = claims
                known = by_topic.get(topic)
                if known is None:
                    by_topic[topic] = [claims]
                else:
                    known.append(claims)
    taken: Assignment = {}
    for topic, claimed in by_topic.items():
        everything = frozenset[int]().union(*claimed)
        size = partitions[topic]
        if (
            len(everything) < sum(map(len, claimed))
            or max(everything) >= size
            or min(everything) < 0
        ):
            everything = _resolve_claims(topic, [kept[member] for member in sorted(kept)], size)
        taken[topic] = everything
    return kept, taken


def _resolve_claims(
    topic: "TopicId", assignments: "list[Assignment]", count: int
) -> frozenset[int]:
    """Remove double and unknown partitions of a topic; return those that are still assigned."""
    free = everything = frozenset(range(count))
    for held in assignments:
        if topic in held:
            held[topic] &= free
            free -= held[topic]
            if not held[topic]:
                del held[topic]
    return everything - free


# Heterogeneous subscriptions


class _Heterogeneous:
    """Assigns partitions; a member is represented by its position in hash table order.

    Invariant: `_load[member]` is the number of partitions whose entry in `_owners` is the member.
    """

    def __init__(self, members: "MemberSpecs", partitions: Mapping["TopicId", int]) -> None:
        self._specs = members
        self._ids = _in_table_order(members)
        self._subscribers: dict[TopicId, list[int]] = {}
        for member, member_id in enumerate(self._ids):
            for topic in members[member_id].topics:
                self._subscribers.setdefault(topic, []).append(member)
        self._topics = sorted(self._subscribers, key=lambda topic: self._urgency(topic, partitions))
        self._owners: dict[TopicId, list[int | None]] = {
            topic: [None] * partitions[topic] for topic in self._topics
        }
        self._load = [0] * len(self._ids)
        self._kept, _ = _kept_claims(members, partitions)

    def _urgency(
        self, topic: "TopicId", partitions: Mapping["TopicId", int]
    ) -> tuple[float, int, tuple[int, int]]:
        """Sort by most partitions for each subscriber, then by fewest subscribers."""
        subscribers = len(self._subscribers[topic])
        return -(partitions[topic] / subscribers), subscribers, uuid_order(topic)

    def assign(self) -> dict[str, "Assignment"]:
        for member, member_id in enumerate(self._ids):
            for topic, claims in self._kept[member_id].items():
                owners = self._owners[topic]
                for index in claims:
                    owners[index] = member
                self._load[member] += len(claims)
        for topic in self._topics:
            self._assign_free(topic)
        self._balance()
        return self._result()

    def _assign_free(self, topic: "TopicId") -> None:
        """Assign each partition without an owner to the subscriber with the least load."""
        owners = self._owners[topic]
        free = [index for index, owner in enumerate(owners) if owner is None]
        takers = _least_loaded(self._by_load(topic), self._load)
        for index, (_, taker) in zip(free, takers, strict=False):
            owners[index] = taker
            self._load[taker] += 1

    def _balance(self) -> None:
        """Balance topic after topic until no topic improves or MAX_ROUNDS is reached."""
        topics = [topic for topic in self._topics if len(self._subscribers[topic]) > 1]
        balanced = 0
        for topic in islice(cycle(topics), MAX_ROUNDS * len(topics)):
            balanced = 1 if self._balance_topic(topic) else balanced + 1
            if balanced == len(topics):
                break

    def _balance_topic(self, topic: "TopicId") -> int:
        """Move partitions of one topic from the most to the least loaded of its subscribers; return
        how many moved."""
        order = self._by_load(topic)
        if self._load[order[-1]] - self._load[order[0]] <= 1:
            return 0
        owners = self._owners[topic]
        held: dict[int, list[int]] = {}
        for index, owner in enumerate(owners):
            assert owner is not None  # all are assigned by now
            held.setdefault(owner, []).append(index)
        givers = _most_loaded(list(order), self._load, held)
        moved = 0
        for (high, giver), (low, taker) in zip(
            givers, _least_loaded(order, self._load), strict=False
        ):
            if high - low <= 1:
                break
            owners[held[giver].pop()] = taker
            self._load[giver] -= 1
            self._load[taker] += 1
            moved += 1
        return moved

    def _by_load(self, topic: "TopicId") -> list[int]:
        load = self._load
        return sorted(self._subscribers[topic], key=lambda member: load[member])

    def _result(self) -> dict[str, "Assignment"]:
        result: dict[str, Assignment] = {member_id: {} for member_id in self._specs}
        for topic, owners in self._owners.items():
            held: dict[int, list[int]] = {}
            for index, owner in enumerate(owners):
                assert owner is not None
                held.setdefault(owner, []).append(index)
            for member, indexes in held.items():
                result[self._ids[member]][topic] = frozenset(indexes)
        return result


def _least_loaded(order: Sequence[int], load: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (load, member) without end, the least loaded first; each one yielded gets one more.

    `order` is sorted by load. For example, loads 1, 1, 3 yield members 0, 1 (at load 1), 0, 1 (at
    load 2), then 0, 1, 2 (at load 3), and so on.
    """
    level = load[order[0]] - 1
    end = 0
    while True:
        level += 1
        while end < len(order) and load[order[end]] == level:
            end += 1
        for position in range(end):
            yield level, order[position]


def _most_loaded(
    order: list[int], load: Sequence[int], held: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """Yield (load, member), the most loaded first; each one yielded gives up one that it `held`.

    A member without partitions to give is skipped and swapped with the last member of its load, so
    that the other members of that load stay contiguous.
    """
    start = end = len(order)
    level = 0
    while end:
        level = load[order[start - 1]] if start == end else level - 1
        while start and load[order[start - 1]] == level:
            start -= 1
        for position in range(end - 1, start - 1, -1):
            member = order[position]
            if held.get(member):
                yield level, member
            else:
                end -= 1
                order[position], order[end] = order[end], member
