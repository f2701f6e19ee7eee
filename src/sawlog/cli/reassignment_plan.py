"""The plan of a reassignment: the new replicas of each partition. Pure.

    targets 1 2 3;  orders-0: 1 2 4  ->  1 2 3     only the replica on 4 moves

A replica moves only if it must: its broker is not a target, the racks require it, or an even
distribution was requested. The first replica is the preferred leader.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sawlog.core.ids import TopicPartition

Placement = Mapping[TopicPartition, tuple[int, ...]]
"""The replicas of each partition, the preferred leader first."""
Racks = Mapping[int, str | None]
"""The brokers that may have replicas, with their racks."""


class TooFewBrokers(ValueError):
    """A partition needs more replicas than there are target brokers."""


class Move(NamedTuple):
    partition: TopicPartition
    old: tuple[int, ...]
    new: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        return tuple(node for node in self.new if node not in self.old)

    @property
    def removed(self) -> tuple[int, ...]:
        return tuple(node for node in self.old if node not in self.new)


def plan_moves(
    chosen: Placement,
    racks: Racks,
    *,
    others: Placement | None = None,
    factor: int | None = None,
    is_balanced: bool = False,
) -> list[Move]:
    """Return the moves after which all replicas of the chosen partitions are on brokers of `racks`.

    `others` are partitions that stay; they count for the load of brokers. `factor` is the new
    replication factor; by default each partition keeps its own. `is_balanced` also moves replicas
    and leaders from brokers that have more than others. Raises TooFewBrokers.
    """
    planner = _Planner(chosen, racks, others or {})
    for partition, replicas in sorted(chosen.items()):
        planner.place(partition, factor or len(replicas))
    if is_balanced:
        planner.spread_over_racks()
        planner.balance_replicas()
    planner.choose_leaders()
    if is_balanced:
        planner.balance_leaders()
    return planner.moves()


def plan_leader_moves(chosen: Placement, broker: int, *, others: Placement) -> list[Move]:
    """Return changes of order after which `broker` is the last replica of each partition.

    No replica moves. A partition with one replica stays.
    """
    leaders = Counter(replicas[0] for replicas in [*chosen.values(), *others.values()])
    moves = []
    for partition, old in sorted(chosen.items()):
        if old[0] != broker or len(old) == 1:
            continue
        first = min(old[1:], key=lambda node: (leaders[node], node))
        leaders[first] += 1
        rest = [node for node in old[1:] if node != first]
        moves.append(Move(partition, old, (first, *rest, broker)))
    return moves


class _Planner:
    """The replicas of each partition so far, in no order until the leaders are chosen.

    `_load` and `_topic_load` always count the replicas of `_new` and of the other partitions.
    """

    def __init__(self, chosen: Placement, racks: Racks, others: Placement) -> None:
        self._old = chosen
        self._racks = racks
        self._others = others
        self._targets = sorted(racks)
        self._new: dict[TopicPartition, list[int]] = {}
        self._load: Counter[int] = Counter()
        self._topic_load: Counter[tuple[str, int]] = Counter()
        self._leaders: Counter[int] = Counter()
        self._topic_leaders: Counter[tuple[str, int]] = Counter()
        for partition, replicas in others.items():
            self._count(partition, replicas, 1)
        for partition, replicas in chosen.items():
            self._new[partition] = [node for node in replicas if node in racks]
            self._count(partition, self._new[partition], 1)

    def place(self, partition: TopicPartition, factor: int) -> None:
        """Add or remove replicas until there are `factor`."""
        if factor > len(self._targets):
            raise TooFewBrokers(
                f"{partition} needs {factor} replicas; the brokers for them are"
                f" {_listed(self._targets)}"
            )
        replicas = self._new[partition]
        while len(replicas) > factor:
            self._replace(partition, self._most_dispensable(replicas), None)
        while len(replicas) < factor:
            self._replace(partition, None, self._best_addition(replicas))

    def spread_over_racks(self) -> None:
        """Move replicas of partitions that are on fewer racks than they could be."""
        for partition, replicas in sorted(self._new.items()):
            possible = min(len(replicas), len(set(self._racks.values())))
            while self._rack_count(replicas) < possible:
                surplus = self._most_dispensable(replicas)
                kept = [node for node in replicas if node != surplus]
                self._replace(partition, surplus, self._best_addition(kept))

    def balance_replicas(self) -> None:
        """Move replicas to brokers that have at least two fewer; racks are not given up.

        Each move makes the sum of the squared loads smaller, so this ends.
        """
        while self._move_some():
            pass

    def choose_leaders(self) -> None:
        """Order the replicas: the old order, but a partition that lost its preferred leader gets
        the replica that is preferred least often, of those that have the records already.
        """
        for partition, fixed in self._others.items():
            self._count_leader(partition, fixed[0], 1)
        lost = []
        for partition, replicas in sorted(self._new.items()):
            old = self._old[partition]
            replicas.sort(key=lambda node: old.index(node) if node in old else len(old))
            if old and replicas[0] == old[0]:
                self._count_leader(partition, replicas[0], 1)
            else:
                lost.append(partition)
        for partition in lost:
            replicas = self._new[partition]
            present = [node for node in replicas if node in self._old[partition]] or replicas
            first = min(present, key=lambda node: (self._leaders[node], node))
            self._count_leader(partition, first, 1)
            _put_first(replicas, first)

    def balance_leaders(self) -> None:
        """Prefer replicas on brokers that lead less, of the topic and altogether.

        Each change makes the sum of the squared numbers of leaders smaller, or leaves it and makes
        that of the topic smaller, so this ends.
        """
        for needs_topic in (True, False):
            while self._change_leaders(needs_topic=needs_topic):
                pass

    def _change_leaders(self, *, needs_topic: bool) -> bool:
        """Go over all partitions once; with `needs_topic` each change makes its topic more even."""
        has_changed = False
        for partition, replicas in sorted(self._new.items()):
            leaders, topic = self._leaders, partition.topic
            old = replicas[0]
            for node in sorted(replicas[1:], key=lambda node: (leaders[node], node)):
                gain = leaders[old] - leaders[node]
                topic_gain = self._topic_leaders[topic, old] - self._topic_leaders[topic, node]
                if (gain >= 1 and topic_gain >= 2) or (gain >= 2 and not needs_topic):
                    self._count_leader(partition, old, -1)
                    self._count_leader(partition, node, 1)
                    _put_first(replicas, node)
                    has_changed = True
                    break
        return has_changed

    def moves(self) -> list[Move]:
        planned = (
            Move(partition, self._old[partition], tuple(replicas))
            for partition, replicas in sorted(self._new.items())
        )
        return [move for move in planned if move.new != move.old]

    def _move_some(self) -> bool:
        """Move replicas between two brokers whose loads differ by two or more, if any can move."""
        for giver in sorted(self._targets, key=lambda node: (-self._load[node], node)):
            for taker in sorted(self._targets, key=lambda node: (self._load[node], node)):
                if self._load[giver] - self._load[taker] < 2:
                    break
                if movable := self._movable(giver, taker):
                    self._move_between(giver, taker, movable)
                    return True
        return False

    def _movable(self, giver: int, taker: int) -> dict[tuple[bool, str], list[TopicPartition]]:
        """Return the partitions that can move, by topic and whether that copies no records."""
        found: dict[tuple[bool, str], list[TopicPartition]] = {}
        for partition, replicas in self._new.items():
            if giver not in replicas or taker in replicas:
                continue
            after = [taker if node == giver else node for node in replicas]
            if self._rack_count(after) >= self._rack_count(replicas):
                old = self._old[partition]
                is_free = giver not in old or taker in old
                found.setdefault((is_free, partition.topic), []).append(partition)
        return found

    def _move_between(
        self, giver: int, taker: int, movable: dict[tuple[bool, str], list[TopicPartition]]
    ) -> None:
        """Move replicas until one of the brokers has the average; topics stay even."""

        def preference(kind: tuple[bool, str]) -> tuple[bool, int, str]:
            is_free, topic = kind
            unevenness = self._topic_load[topic, giver] - self._topic_load[topic, taker]
            return is_free, unevenness, topic

        total = sum(self._load[node] for node in self._targets)
        low, rest = divmod(total, len(self._targets))
        count = min(self._load[giver] - low - bool(rest), low - self._load[taker])
        for _ in range(max(1, count)):
            if not movable:
                return
            best = max(movable, key=preference)
            self._replace(movable[best].pop(), giver, taker)
            if not movable[best]:
                del movable[best]

    def _best_addition(self, replicas: Sequence[int]) -> int:
        """Return the least loaded target in a rack that the replicas use least."""
        used = Counter(self._racks[node] for node in replicas)
        free = [node for node in self._targets if node not in replicas]
        return min(free, key=lambda node: (used[self._racks[node]], self._load[node], node))

    def _most_dispensable(self, replicas: Sequence[int]) -> int:
        """Return a replica that shares its rack, that with the most load; not the preferred leader
        if there is another."""
        used = Counter(self._racks[node] for node in replicas)
        return max(
            replicas,
            key=lambda node: (
                used[self._racks[node]],
                node != replicas[0],
                self._load[node],
                node,
            ),
        )

    def _rack_count(self, replicas: Iterable[int]) -> int:
        return len({self._racks[node] for node in replicas})

    def _replace(self, partition: TopicPartition, old: int | None, new: int | None) -> None:
        replicas = self._new[partition]
        if old is not None:
            replicas.remove(old)
            self._count(partition, [old], -1)
        if new is not None:
            assert new not in replicas
            replicas.append(new)
            self._count(partition, [new], 1)

    def _count_leader(self, partition: TopicPartition, node: int, step: int) -> None:
        self._leaders[node] += step
        self._topic_leaders[partition.topic, node] += step

    def _count(self, partition: TopicPartition, replicas: Iterable[int], step: int) -> None:
        for node in replicas:
            self._load[node] += step
            self._topic_load[partition.topic, node] += step


def _put_first(replicas: list[int], node: int) -> None:
    replicas.remove(node)
    replicas.insert(0, node)


def _listed(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes)) or "none"
