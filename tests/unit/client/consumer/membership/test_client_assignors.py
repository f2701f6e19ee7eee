"""Client-side assignors: complete, never double, balanced and sticky."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.client.consumer.membership.client_assignors import (
    ASSIGNORS,
    Assignments,
    Subscriber,
    cooperative_sticky,
    range_,
    roundrobin,
)
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition

ROUNDS = 4
TOPICS = ["a", "b", "c"]
sizes_of_topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))
subscriptions = st.dictionaries(
    st.sampled_from([f"m{n}" for n in range(6)]),
    st.frozensets(st.sampled_from(TOPICS), min_size=1),
    min_size=1,
)


def parts(topic: str, *indexes: int) -> set[TopicPartition]:
    return {partition_of(topic, index) for index in indexes}


def members(**topics: str) -> dict[str, Subscriber]:
    return {name: Subscriber(frozenset(some)) for name, some in topics.items()}


def wanted(
    subscribers: dict[str, frozenset[str]], sizes: dict[str, int]
) -> Counter[TopicPartition]:
    """Every subscribed partition, once."""
    read = frozenset[str]().union(*subscribers.values())
    return Counter(partition_of(t, i) for t in read for i in range(sizes.get(t, 0)))


def given_out(assignments: Assignments) -> Counter[TopicPartition]:
    return Counter(each for some in assignments.values() for each in some)


def test_range_assigns_contiguous_partitions_and_the_first_members_one_more() -> None:
    assert range_(members(x="ab", y="ab"), {"a": 3, "b": 2}) == {
        "x": parts("a", 0, 1) | parts("b", 0),
        "y": parts("a", 2) | parts("b", 1),
    }


def test_roundrobin_skips_members_without_the_topic() -> None:
    assert roundrobin(members(x="a", y="ab", z="abc"), {"a": 1, "b": 2, "c": 3}) == {
        "x": parts("a", 0),
        "y": parts("b", 0),
        "z": parts("b", 1) | parts("c", 0, 1, 2),
    }


def test_static_members_come_first_by_instance_id() -> None:
    some = {
        "m1": Subscriber(frozenset("a")),
        "m2": Subscriber(frozenset("a"), instance_id="z"),
        "m3": Subscriber(frozenset("a"), instance_id="y"),
    }
    assert range_(some, {"a": 3}) == {
        "m3": parts("a", 0),
        "m2": parts("a", 1),
        "m1": parts("a", 2),
    }


@pytest.mark.parametrize("name", ["range", "roundrobin"])
@given(subscribers=subscriptions, sizes=sizes_of_topics)
def test_every_partition_is_assigned_to_one_subscriber(
    name: str, subscribers: dict[str, frozenset[str]], sizes: dict[str, int]
) -> None:
    found = ASSIGNORS[name]({m: Subscriber(topics) for m, topics in subscribers.items()}, sizes)
    assert given_out(found) == wanted(subscribers, sizes)
    assert all(each.topic in subscribers[m] for m, some in found.items() for each in some)


@given(
    subscribers=subscriptions,
    later=subscriptions,
    sizes=sizes_of_topics,
    grown=sizes_of_topics,
)
def test_cooperative_rounds_never_assign_twice_and_end_balanced(
    subscribers: dict[str, frozenset[str]],
    later: dict[str, frozenset[str]],
    sizes: dict[str, int],
    grown: dict[str, int],
) -> None:
    owned: Assignments = {}
    generation = 0
    for topics, now in ((subscribers, sizes), (later, {**sizes, **grown})):
        owned = {member: owned.get(member, set()) for member in topics}
        for _ in range(ROUNDS):
            generation += 1
            joined = {m: Subscriber(topics[m], frozenset(owned[m]), generation - 1) for m in topics}
            found = cooperative_sticky(joined, now)
            for member, some in found.items():
                others = set[TopicPartition]().union(
                    *(owned[other] for other in topics if other != member)
                )
                assert not some & others, "given while another still has it"
                assert all(each.topic in topics[member] for each in some)
            is_at_rest = found == owned
            owned = found
        assert is_at_rest
        assert given_out(owned) == wanted(topics, now)
        for some in owned.values():
            for each in some:
                for other in topics:
                    if each.topic in topics[other]:
                        assert len(owned[other]) + 2 > len(some), "one has two more than another"


def test_a_new_member_takes_no_more_than_its_share() -> None:
    a_and_b = {
        "a": Subscriber(frozenset("t"), frozenset(parts("t", 0, 1, 2)), 1),
        "b": Subscriber(frozenset("t"), frozenset(parts("t", 3, 4, 5)), 1),
    }
    found = cooperative_sticky({**a_and_b, "c": Subscriber(frozenset("t"))}, {"t": 6})
    assert found["a"] < a_and_b["a"].owned
    assert len(found["a"]) == len(found["b"]) == 2
    assert found["c"] == set()


def test_the_claimant_with_the_later_generation_keeps_a_partition() -> None:
    both = frozenset(parts("t", 0))
    later = {
        "a": Subscriber(frozenset("t"), both, 3),
        "b": Subscriber(frozenset("t"), both, 4),
    }
    assert cooperative_sticky(later, {"t": 1}) == {"a": set(), "b": set()}
    alone = {"b": later["b"], "a": Subscriber(frozenset("t"), frozenset(), 4)}
    assert cooperative_sticky(alone, {"t": 1}) == {"a": set(), "b": set(both)}
