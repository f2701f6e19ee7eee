"""Clients of both protocols join, leave, die and are rolled in any order: no partition ever has two
readers, and finally each has one."""

from random import Random
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.groups.consumer_group import Groups
from support.groups.rolling_members import (
    AnyClient,
    ClassicClient,
    ConsumerClient,
    check_apart,
    group_type,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 5
MOST_MEMBERS = 4
MISSED_MS = 135_000
"""Longer than two sessions of 45 s: one may end before and one after a migration."""
BEAT_MS = 3_000

KINDS = st.sampled_from(("eager", "cooperative", "new"))
PLACES = st.integers(0, MOST_MEMBERS - 1)
EVENTS = st.one_of(
    st.tuples(st.just("start"), PLACES, KINDS),
    st.tuples(st.just("leave"), PLACES, KINDS),
    st.tuples(st.just("die"), PLACES, KINDS),
    st.tuples(st.just("step"), PLACES, st.integers(1, 4)),
    st.tuples(st.just("all step"), PLACES, st.integers(1, 4)),
    st.tuples(st.just("wait"), PLACES, st.sampled_from((10, 500, 4_000, 20_000))),
    st.tuples(st.just("restart"), PLACES, KINDS),
)


class Rolling:
    """Slots for clients; the instance id of a static member is that of its slot."""

    def __init__(self, *, is_static: bool) -> None:
        self.groups = Groups(group_initial_rebalance_delay_ms="0")
        self.groups.make(t=PARTITIONS)
        self.members: dict[int, AnyClient] = {}
        self._is_static = is_static
        self._started = 0

    def start(self, place: int, kind: str) -> None:
        """Start a client; the one that was in the slot before has died."""
        self._started += 1
        instance = f"place-{place}" if self._is_static else None
        if kind == "new":
            static = {} if instance is None else {"instance_id": instance}
            self.members[place] = ConsumerClient(self.groups, f"n{self._started}", "t", **static)
        else:
            is_eager = kind == "eager"
            self.members[place] = ClassicClient(
                self.groups, "t", instance=instance, is_eager=is_eager
            )

    def leave(self, place: int, _: str) -> None:
        """Leave permanently; a static member of the consumer protocol leaves temporarily."""
        member = self.members.pop(place, None)
        if isinstance(member, ConsumerClient):
            member.leave(-2 if self._is_static else -1)
        elif member is not None:
            member.leave()

    def die(self, place: int, _: str) -> None:
        self.members.pop(place, None)

    def step(self, place: int, times: int) -> None:
        for _ in range(times):
            if place in self.members:
                self.members[place].step()
                check_apart(self.members.values())

    def all_step(self, _: int, times: int) -> None:
        for _ in range(times):
            for place in list(self.members):
                self.step(place, 1)
            self.groups.pass_time(5)

    def wait(self, _: int, duration_ms: int) -> None:
        """Let time pass with heartbeats, so that no session times out."""
        for _ in range(0, duration_ms, BEAT_MS):
            self.all_step(0, 1)
            self.groups.pass_time(min(duration_ms, BEAT_MS))

    def restart(self, _: int, __: str) -> None:
        self.groups.restart()
        for member in self.members.values():
            member.disconnect()

    def run(self, event: tuple[str, int, str | int]) -> None:
        name, place, argument = event
        act: Callable[[int, str | int], None] = getattr(self, name.replace(" ", "_"))
        act(place, argument)
        check_apart(self.members.values())

    def settle(self) -> None:
        """Wait until dead clients have timed out and all others are settled."""
        for _ in range(MISSED_MS // BEAT_MS):
            settle(self.groups, self.members.values(), rounds=1)
            self.groups.pass_time(BEAT_MS)
        settle(self.groups, self.members.values(), rounds=30)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(is_static=st.booleans(), events=st.lists(EVENTS, max_size=25))
def test_every_partition_has_at_most_one_reader_and_finally_exactly_one(
    is_static: bool, events: list[tuple[str, int, str | int]]
) -> None:
    rolling = Rolling(is_static=is_static)
    for event in events:
        rolling.run(event)
    rolling.settle()
    members = list(rolling.members.values())
    if not members:
        return
    assert {partition for member in members for partition in member.reads} == {
        ("t", index) for index in range(PARTITIONS)
    }
    has_new = any(isinstance(member, ConsumerClient) for member in members)
    assert group_type(rolling.groups) == ("Consumer" if has_new else "Classic")


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(count=st.integers(1, MOST_MEMBERS), order=st.randoms(use_true_random=False))
def test_static_members_roll_without_a_rebalance_of_the_others(count: int, order: Random) -> None:
    rolling = Rolling(is_static=True)
    for place in range(count):
        rolling.start(place, "cooperative")
    settle(rolling.groups, rolling.members.values())
    shares = {place: set(member.reads) for place, member in rolling.members.items()}
    for kind in ("new", "cooperative"):
        places = list(range(count))
        order.shuffle(places)
        for place in places:
            others = {p: member for p, member in rolling.members.items() if p != place}
            joins = {p: m.joins for p, m in others.items() if isinstance(m, ClassicClient)}
            if kind == "cooperative":
                rolling.leave(place, kind)
            rolling.start(place, kind)
            for _ in range(6):
                settle(rolling.groups, rolling.members.values(), rounds=1)
                assert {p: member.reads for p, member in others.items()} == {
                    p: shares[p] for p in others
                }
            assert rolling.members[place].reads == shares[place]
            assert joins == {p: m.joins for p, m in others.items() if isinstance(m, ClassicClient)}
        assert group_type(rolling.groups) == ("Consumer" if kind == "new" else "Classic")
