"""Invariants of all assignments, for arbitrary groups, topics and current assignments."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sawlog.core.ids import TopicId
from sawlog.groups.consumer.assignor import Assignment, MemberSpec
from sawlog.groups.consumer.server_assignors import ASSIGNORS

TOPICS = [TopicId(bytes([number]) * 16) for number in (1, 7, 42, 200)]
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 12) for topic in TOPICS})
NAMES = st.text("abcdefghij", min_size=1, max_size=4)
CLAIMS = st.dictionaries(st.sampled_from(TOPICS), st.frozensets(st.integers(0, 15), max_size=8))
SUBSCRIPTIONS = st.frozensets(st.sampled_from(TOPICS))

Members = Mapping[str, MemberSpec]

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""No deadline: a busy machine is not a failure."""


def specs(topics: st.SearchStrategy[frozenset[TopicId]]) -> st.SearchStrategy[MemberSpec]:
    """Members with any current assignment: double, out of range, of unsubscribed topics."""
    return st.builds(MemberSpec, topics, CLAIMS, st.none() | NAMES, st.none())


def groups(topics: st.SearchStrategy[frozenset[TopicId]]) -> st.SearchStrategy[Members]:
    return st.dictionaries(NAMES, specs(topics), max_size=12)


ALIKE = SUBSCRIPTIONS.flatmap(lambda topics: groups(st.just(topics)))
UNLIKE = groups(SUBSCRIPTIONS)


def continued(members: Members, answer: Mapping[str, Assignment]) -> dict[str, MemberSpec]:
    return {name: spec._replace(current=answer[name]) for name, spec in members.items()}


def owners(answer: Mapping[str, Assignment]) -> dict[tuple[TopicId, int], str]:
    return {
        (topic, index): name
        for name, share in answer.items()
        for topic, indexes in share.items()
        for index in indexes
    }


def loads(answer: Mapping[str, Assignment]) -> dict[str, int]:
    return {name: sum(map(len, share.values())) for name, share in answer.items()}


@unhurried
@given(st.sampled_from(sorted(ASSIGNORS)), ALIKE | UNLIKE, COUNTS)
def test_every_partition_has_one_owner_that_subscribes_to_its_topic(
    assignor: str, members: Members, counts: dict[TopicId, int]
) -> None:
    answer = ASSIGNORS[assignor](members, counts)
    assert answer.keys() == members.keys()
    given_out = Counter(
        (topic, index) for share in answer.values() for topic in share for index in share[topic]
    )
    wanted = frozenset().union(*(spec.topics for spec in members.values()))
    assert given_out == Counter(
        (topic, index) for topic in wanted for index in range(counts[topic])
    )
    for name, share in answer.items():
        assert share.keys() <= members[name].topics
        assert all(share.values())


@unhurried
@given(st.sampled_from(sorted(ASSIGNORS)), ALIKE | UNLIKE, COUNTS)
def test_the_assignment_does_not_depend_on_the_order_of_members(
    assignor: str, members: Members, counts: dict[TopicId, int]
) -> None:
    fresh = {name: spec._replace(current={}) for name, spec in members.items()}
    backwards = dict(reversed(fresh.items()))
    assert ASSIGNORS[assignor](fresh, counts) == ASSIGNORS[assignor](backwards, counts)


@unhurried
@given(st.sampled_from(sorted(ASSIGNORS)), ALIKE | UNLIKE, COUNTS)
def test_repeated_assignment_changes_nothing(
    assignor: str, members: Members, counts: dict[TopicId, int]
) -> None:
    answer = ASSIGNORS[assignor](members, counts)
    assert ASSIGNORS[assignor](continued(members, answer), counts) == answer


@unhurried
@given(ALIKE, COUNTS)
def test_uniform_homogeneous_shares_differ_by_at_most_one(
    members: Members, counts: dict[TopicId, int]
) -> None:
    sizes = loads(ASSIGNORS["uniform"](members, counts)).values()
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


@unhurried
@given(ALIKE, COUNTS, NAMES)
def test_a_new_member_moves_no_partition_between_the_others(
    members: Members, counts: dict[TopicId, int], newcomer: str
) -> None:
    uniform = ASSIGNORS["uniform"]
    topics = next((spec.topics for spec in members.values()), frozenset(TOPICS))
    before = continued(members, uniform(members, counts))
    before.pop(newcomer, None)
    settled = uniform(before, counts)
    joined = {**continued(before, settled), newcomer: MemberSpec(topics, {}, None, None)}
    was = owners(settled)
    for partition, owner in owners(uniform(joined, counts)).items():
        assert owner in (was.get(partition), newcomer)


@unhurried
@given(ALIKE.filter(bool), COUNTS, st.data())
def test_a_leaving_member_moves_no_partition_of_the_others(
    members: Members, counts: dict[TopicId, int], data: st.DataObject
) -> None:
    uniform = ASSIGNORS["uniform"]
    settled = uniform(members, counts)
    remaining = continued(members, settled)
    del remaining[data.draw(st.sampled_from(sorted(members)))]
    after = uniform(remaining, counts)
    for name, share in after.items():
        for topic, indexes in settled[name].items():
            assert indexes <= share[topic]


@unhurried
@given(UNLIKE, COUNTS)
def test_no_partition_could_move_to_a_subscriber_with_two_fewer(
    members: Members, counts: dict[TopicId, int]
) -> None:
    answer = ASSIGNORS["uniform"](members, counts)
    sizes = loads(answer)
    for name, share in answer.items():
        for topic in share:
            others = (sizes[other] for other in members if topic in members[other].topics)
            assert sizes[name] - min(others) <= 1


@unhurried
@given(ALIKE | UNLIKE, COUNTS)
def test_range_assigns_contiguous_partitions_of_each_topic(
    members: Members, counts: dict[TopicId, int]
) -> None:
    for share in ASSIGNORS["range"](members, counts).values():
        for indexes in share.values():
            assert max(indexes) - min(indexes) == len(indexes) - 1
