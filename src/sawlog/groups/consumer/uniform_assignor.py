"""The uniform assignor: equal shares first, then as few partitions on the move as possible.

`spread` is for members that all subscribe to the same topics, where shares can be counted before
anything is moved. `spread_unlike` is for members that do not: it hands out what is free and then
evens out topic by topic.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import cycle, islice
from typing import TYPE_CHECKING

from sawlog.core.java_hash import string_hash, table_order, uuid_hash, uuid_order

if TYPE_CHECKING:
    from sawlog.core.ids import TopicId
    from sawlog.groups.consumer.server_assignors import Assignment, MemberSpec

ROUNDS = 16
"""How often `spread_unlike` goes over all topics; each round halves what is uneven, or better."""


MAX_KNOWN_MEMBERS = 10_000
"""So many ids are hashed once, and not for each that joins after them."""

LONGEST_KNOWN_ID = 300
"""An id is what a client likes it to be."""

_known_hash = lru_cache(MAX_KNOWN_MEMBERS)(string_hash)


def _member_hash(member: str) -> int:
    return _known_hash(member) if len(member) <= LONGEST_KNOWN_ID else string_hash(member)


def in_table_order(members: Mapping[str, "MemberSpec"]) -> list[str]:
    return table_order(sorted(members), _member_hash)


# All members subscribe to the same topics


def spread(
    members: Mapping[str, "MemberSpec"], partitions: Mapping["TopicId", int]
) -> dict[str, "Assignment"]:
    topics = next((spec.topics for spec in members.values()), frozenset())
    if not topics:
        return {member: {} for member in members}
    held, taken = kept_claims(members, partitions)
    free: list[tuple[TopicId, int]] = []
    for topic in table_order(sorted(topics), uuid_hash, copied=True):
        not_free = taken.get(topic, ())
        if len(not_free) < partitions[topic]:
            free += [(topic, index) for index in range(partitions[topic]) if index not in not_free]
    share, extras = divmod(sum(partitions[topic] for topic in topics), len(members))
    wanting: list[tuple[str, int]] = []
    for position, member in enumerate(in_table_order(members)):
        limit = share + 1 if extras else share
        room = limit - sum(map(len, held[member].values()))
        if room < 0:
            trim(held[member], limit, free)
            room = 0
        if extras:
            if room and len(members) - position > extras:
                room -= 1  # somebody after this one may have the extra partition already
            else:
                extras -= 1
        if room:
            wanting.append((member, room))
    start = 0
    for member, room in wanting:
        add(held[member], free[start : start + room])
        start += room
    return held


def trim(held: "Assignment", limit: int, free: list[tuple["TopicId", int]]) -> None:
    """Moves what a member holds beyond the limit to `free`."""
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


def add(held: "Assignment", more: Sequence[tuple["TopicId", int]]) -> None:
    by_topic: dict[TopicId, list[int]] = {}
    for topic, index in more:
        by_topic.setdefault(topic, []).append(index)
    for topic, indexes in by_topic.items():
        held[topic] = held[topic].union(indexes) if topic in held else frozenset(indexes)


def kept_claims(
    members: Mapping[str, "MemberSpec"], partitions: Mapping["TopicId", int]
) -> tuple[dict[str, "Assignment"], "Assignment"]:
    """What each member had and still subscribes to, and all of that together.

    Of two that claim a partition the first by name keeps it, and nobody keeps one that the topic
    does not have: an assignment that clients worked out themselves, before the group came to this
    protocol, may hold such.
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
            everything = _settle_claims(topic, [kept[member] for member in sorted(kept)], size)
        taken[topic] = everything
    return kept, taken


def _settle_claims(topic: "TopicId", assignments: "list[Assignment]", count: int) -> frozenset[int]:
    """Returns what is taken then."""
    free = everything = frozenset(range(count))
    for held in assignments:
        if topic in held:
            held[topic] &= free
            free -= held[topic]
            if not held[topic]:
                del held[topic]
    return everything - free


# Members subscribe to different topics


def spread_unlike(
    members: Mapping[str, "MemberSpec"], partitions: Mapping["TopicId", int]
) -> dict[str, "Assignment"]:
    return _Unlike(members, partitions).assign()


class _Unlike:
    """Members are numbers here, their places in the order of the table.

    Invariant: `load[member]` counts the partitions of all topics whose `owners` name the member.
    """

    def __init__(
        self, members: Mapping[str, "MemberSpec"], partitions: Mapping["TopicId", int]
    ) -> None:
        self._specs = members
        self._ids = in_table_order(members)
        self._subscribers: dict[TopicId, list[int]] = {}
        for member, member_id in enumerate(self._ids):
            for topic in members[member_id].topics:
                self._subscribers.setdefault(topic, []).append(member)
        self._topics = sorted(self._subscribers, key=lambda topic: self._urgency(topic, partitions))
        self._owners: dict[TopicId, list[int | None]] = {
            topic: [None] * partitions[topic] for topic in self._topics
        }
        self._load = [0] * len(self._ids)
        self._kept, _ = kept_claims(members, partitions)

    def _urgency(
        self, topic: "TopicId", partitions: Mapping["TopicId", int]
    ) -> tuple[float, int, tuple[int, int]]:
        """First the topics that burden their subscribers most, then those that fewest can read."""
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
            self._hand_out(topic)
        self._even_out()
        return self._result()

    def _hand_out(self, topic: "TopicId") -> None:
        """The partitions that nobody has, each to the subscriber with the least load."""
        owners = self._owners[topic]
        free = [index for index, owner in enumerate(owners) if owner is None]
        takers = from_the_bottom(self._by_load(topic), self._load)
        for index, (_, taker) in zip(free, takers, strict=False):
            owners[index] = taker
            self._load[taker] += 1

    def _even_out(self) -> None:
        """Topic after topic, until no topic can do better or the rounds are over."""
        topics = [topic for topic in self._topics if len(self._subscribers[topic]) > 1]
        settled = 0
        for topic in islice(cycle(topics), ROUNDS * len(topics)):
            settled = 1 if self._level(topic) else settled + 1
            if settled == len(topics):
                break

    def _level(self, topic: "TopicId") -> int:
        """Moves partitions of one topic from the most to the least loaded of its subscribers;
        returns how many."""
        order = self._by_load(topic)
        if self._load[order[-1]] - self._load[order[0]] <= 1:
            return 0
        owners = self._owners[topic]
        held: dict[int, list[int]] = {}
        for index, owner in enumerate(owners):
            assert owner is not None  # all was handed out
            held.setdefault(owner, []).append(index)
        givers = from_the_top(list(order), self._load, held)
        moved = 0
        for (high, giver), (low, taker) in zip(
            givers, from_the_bottom(order, self._load), strict=False
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


def from_the_bottom(order: Sequence[int], load: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Load and member, the least loaded first, for ever; whoever is named gets one more.

    `order` is sorted by load. For example, loads 1, 1, 3 name members 0, 1 (at one), 0, 1 (at two),
    then 0, 1, 2 (at three), and so on.
    """
    level = load[order[0]] - 1
    end = 0
    while True:
        level += 1
        while end < len(order) and load[order[end]] == level:
            end += 1
        for position in range(end):
            yield level, order[position]


def from_the_top(
    order: list[int], load: Sequence[int], held: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """Load and member, the most loaded first; whoever is named gives one of what it `held`.

    Who has nothing to give is passed over and trades places with the last of its level, so that
    the others of the level follow each other without gaps.
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
