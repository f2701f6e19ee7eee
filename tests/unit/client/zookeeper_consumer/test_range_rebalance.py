"""The rebalance algorithm of the paper: ranges, patterns, and what to release and claim."""

from sawlog.client.zookeeper_consumer.group_nodes import PatternKind, Registration
from sawlog.client.zookeeper_consumer.range_rebalance import (
    GroupView,
    assignment,
    cut_ranges,
    plan_rebalance,
    subscribed_threads,
)
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition

TOPICS = ["logs", "logs-old", "metrics", "__consumer_offsets"]


def partition(index: int, topic: str = "logs") -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


def test_the_first_ranges_have_one_more() -> None:
    assert cut_ranges(range(5), ["b-0", "a-0"]) == {"a-0": [0, 1, 2], "b-0": [3, 4]}
    assert cut_ranges([10, 9, 2], ["a-0"]) == {"a-0": [2, 9, 10]}


def test_more_threads_than_partitions_leave_some_without() -> None:
    assert cut_ranges([0], ["a-0", "a-1"]) == {"a-0": [0], "a-1": []}
    assert cut_ranges([0], []) == {}


def test_a_member_with_more_threads_gets_more_shares() -> None:
    members = {"a": Registration({"logs": 1}), "b": Registration({"logs": 3})}
    view = GroupView(members, {"logs": range(4)})
    assert assignment(view, "a") == {partition(0): "a-0"}
    assert assignment(view, "b") == {partition(n): f"b-{n - 1}" for n in (1, 2, 3)}


def test_each_topic_is_shared_by_the_members_that_read_it() -> None:
    members = {"a": Registration({"logs": 1, "metrics": 1}), "b": Registration({"metrics": 1})}
    view = GroupView(members, {"logs": (0, 1), "metrics": (0, 1)})
    assert set(assignment(view, "a")) == {
        partition(0),
        partition(1),
        partition(0, "metrics"),
    }
    assert set(assignment(view, "b")) == {partition(1, "metrics")}
    assert assignment(view, "c") == {}, "not a member"


def test_topics_that_do_not_exist_are_left_out() -> None:
    assert subscribed_threads(Registration({"logs": 1, "none": 1}), TOPICS) == {"logs": 1}


def test_patterns_match_whole_names_and_no_internal_topics() -> None:
    white = Registration({"logs.*": 2}, PatternKind.WHITE_LIST)
    assert subscribed_threads(white, TOPICS) == {"logs": 2, "logs-old": 2}
    black = Registration({"logs": 1}, PatternKind.BLACK_LIST)
    assert subscribed_threads(black, TOPICS) == {"logs-old": 1, "metrics": 1}
    named = Registration({"__consumer_offsets": 1})
    assert subscribed_threads(named, TOPICS) == {"__consumer_offsets": 1}


def test_a_pattern_that_re2_cannot_compile_matches_nothing() -> None:
    foreign = Registration({"(?<=x)logs": 1}, PatternKind.WHITE_LIST)
    assert subscribed_threads(foreign, TOPICS) == {}


def test_partitions_that_stay_are_neither_released_nor_claimed() -> None:
    wanted = {partition(1): "a-0", partition(2): "a-0"}
    plan = plan_rebalance(frozenset({partition(0), partition(1)}), wanted)
    assert plan.release == {partition(0)}
    assert plan.claim == {partition(2): "a-0"}
