"""The server-side assignors on small groups."""

from collections.abc import Mapping

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId
from sawlog.groups.consumer.assignor import Assignment, MemberSpec
from sawlog.groups.consumer.server_assignors import ASSIGNORS

Shares = dict[str, dict[str, set[int]]]


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().rjust(16, b"\0"))


def member(topics: str, instance: str | None = None, **current: set[int]) -> MemberSpec:
    """A member that subscribes to the topics of these letters and owns `current`."""
    return MemberSpec(
        frozenset(map(topic_id, topics)),
        {topic_id(name): frozenset(indexes) for name, indexes in current.items()},
        instance,
        None,
    )


def assign(assignor: str, members: Mapping[str, MemberSpec], **counts: int) -> Shares:
    sizes = {topic_id(name): count for name, count in counts.items()}
    return readable(ASSIGNORS[assignor](members, sizes))


def readable(assignments: Mapping[str, Assignment]) -> Shares:
    return {
        name: {topic.lstrip(b"\0").decode(): set(indexes) for topic, indexes in share.items()}
        for name, share in assignments.items()
    }


# All assignors


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_group_without_members_gets_nothing(assignor: str) -> None:
    assert assign(assignor, {}, t=3) == {}


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_without_topics_get_nothing(assignor: str) -> None:
    assert assign(assignor, {"a": member(""), "b": member("", t={0})}, t=3) == {"a": {}, "b": {}}


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_more_members_than_partitions_leaves_the_rest_idle(assignor: str) -> None:
    shares = assign(assignor, {name: member("t") for name in "abcde"}, t=2)
    assert sorted(len(share.get("t", ())) for share in shares.values()) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("other", ["t", "tu"])
def test_an_unknown_topic_is_an_error(assignor: str, other: str) -> None:
    with pytest.raises(KafkaError) as refused:
        assign(assignor, {"a": member("tu"), "b": member(other)}, t=1)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


# Uniform, homogeneous subscriptions


def test_a_new_member_takes_only_its_share() -> None:
    shares = assign("uniform", {"a": member("t", t={0, 1, 2, 3}), "b": member("t")}, t=4)
    assert shares == {"a": {"t": {0, 1}}, "b": {"t": {2, 3}}}


def test_the_extra_partition_stays_with_its_owner() -> None:
    members = {"a": member("t", t={0}), "b": member("t", t={1, 2})}
    assert assign("uniform", members, t=3) == {"a": {"t": {0}}, "b": {"t": {1, 2}}}


def test_the_partitions_of_a_removed_member_go_to_the_others() -> None:
    members = {"a": member("t", t={0, 1}), "b": member("t", t={4, 5})}
    shares = assign("uniform", members, t=6)
    assert shares == {"a": {"t": {0, 1, 2}}, "b": {"t": {3, 4, 5}}}


def test_a_topic_without_subscribers_is_unassigned() -> None:
    members = {"a": member("t", t={0}, u={0, 1}), "b": member("t", t={1})}
    assert assign("uniform", members, t=2, u=2) == {"a": {"t": {0}}, "b": {"t": {1}}}


def test_new_partitions_fill_the_smaller_shares() -> None:
    members = {"a": member("t", t={0, 1}), "b": member("t", t={2})}
    assert assign("uniform", members, t=4) == {"a": {"t": {0, 1}}, "b": {"t": {2, 3}}}


def test_shares_are_equal_over_all_topics_together() -> None:
    shares = assign("uniform", {"a": member("tu"), "b": member("tu")}, t=1, u=3)
    assert [sum(map(len, share.values())) for share in shares.values()] == [2, 2]


@pytest.mark.parametrize("topics", ["t", "tu"])
def test_conflicting_current_assignments_are_resolved(topics: str) -> None:
    """Client-side assignors may have left such assignments."""
    members = {"a": member("t", t={0, 1, 9}), "b": member(topics, t={0, 1})}
    shares = assign("uniform", members, t=4, u=0)
    assert shares["a"]["t"] | shares["b"]["t"] == {0, 1, 2, 3}
    assert len(shares["a"]["t"]) == len(shares["b"]["t"]) == 2


# Uniform, heterogeneous subscriptions


def test_a_member_with_a_topic_of_its_own_leaves_the_others_the_rest() -> None:
    shares = assign("uniform", {"a": member("t"), "b": member("tu")}, t=3, u=4)
    assert shares == {"a": {"t": {0, 1, 2}}, "b": {"u": {0, 1, 2, 3}}}


def test_partitions_move_from_the_most_to_the_least_loaded_member() -> None:
    members = {"a": member("tu", t={0, 1, 2, 3}, u={0, 1}), "b": member("t")}
    shares = assign("uniform", members, t=4, u=2)
    assert shares == {"a": {"t": {0}, "u": {0, 1}}, "b": {"t": {1, 2, 3}}}


def test_a_member_that_unsubscribes_from_a_topic_loses_only_that() -> None:
    members = {"a": member("u", t={0, 1}, u={0, 1}), "b": member("tu", t={2}, u={2})}
    shares = assign("uniform", members, t=3, u=3)
    assert shares == {"a": {"u": {0, 1, 2}}, "b": {"t": {0, 1, 2}}}


# Range


def test_range_splits_topics_of_equal_size_alike() -> None:
    shares = assign("range", {"a": member("tu"), "b": member("tu")}, t=3, u=3)
    assert shares == {"a": {"t": {0, 1}, "u": {0, 1}}, "b": {"t": {2}, "u": {2}}}


def test_range_splits_each_topic_among_its_subscribers() -> None:
    members = {"a": member("t"), "b": member("tu"), "c": member("u")}
    shares = assign("range", members, t=3, u=2)
    assert shares == {"a": {"t": {0, 1}}, "b": {"t": {2}, "u": {0}}, "c": {"u": {1}}}


def test_range_sorts_static_members_first_by_instance_id() -> None:
    members = {"a": member("t"), "z": member("t", "i1"), "m": member("t", "i2")}
    shares = assign("range", members, t=3)
    assert shares == {"z": {"t": {0}}, "m": {"t": {1}}, "a": {"t": {2}}}


def test_range_keeps_the_partitions_of_a_static_member_with_a_new_id() -> None:
    before = assign("range", {"x": member("t", "i1"), "y": member("t", "i2")}, t=3)
    after = assign("range", {"b": member("t", "i1"), "a": member("t", "i2")}, t=3)
    assert (after["b"], after["a"]) == (before["x"], before["y"])
