"""Subscriptions by pattern: matched in a moment of their own, and again when topics are made."""

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.consumer.regex_subscriptions import MIN_INTERVAL_MS, compiled, matching
from support.groups.consumer_group import Consumer, Groups, settle, shares

REFRESH_MS = 600_000


def reader(groups: Groups, name: str, pattern: str) -> Consumer:
    return Consumer(groups, name, subscribed_topic_regex=pattern)


def topics(*consumers: Consumer) -> list[list[str]]:
    return [sorted({topic for topic, _ in consumer.reads}) for consumer in consumers]


def keep_alive(groups: Groups, duration_ms: int, *consumers: Consumer) -> None:
    for _ in range(duration_ms // 5_000):
        groups.pass_time(5_000)
        for consumer in consumers:
            assert consumer.beat() == 0


@pytest.mark.parametrize("pattern", ["(", "[", "*", "a{1001}", "(?=a)", r"\1"])
def test_what_is_no_pattern_is_refused_and_leaves_no_trace(pattern: str) -> None:
    groups = Groups()
    answer = groups.join("a", subscribed_topic_regex=pattern)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert pattern in answer.error_message
    assert groups.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(KafkaError):
        compiled(pattern)


def test_a_pattern_means_the_names_that_it_matches_as_a_whole() -> None:
    names = ["log", "log-1", "catalog", "Log"]
    assert matching("log.*", names) == {"log", "log-1"}
    assert matching("log", names) == {"log"}
    assert matching("(?i)log", names) == {"log", "Log"}
    assert matching("x*", names) == set()


def test_topics_come_with_the_heartbeat_after_the_one_that_brought_the_pattern() -> None:
    groups = Groups()
    groups.make(log1=1, log2=1, other=1)
    a = reader(groups, "a", "log.*")
    assert a.join() == 0
    assert (a.epoch, topics(a)) == (1, [[]])
    groups.pass_time(1)
    a.beat()
    assert (a.epoch, topics(a)) == (2, [["log1", "log2"]])


def test_a_second_member_of_the_pattern_gets_its_share_at_once() -> None:
    groups = Groups()
    groups.make(log=2)
    a, b = reader(groups, "a", "log.*"), reader(groups, "b", "log.*")
    a.join()
    groups.pass_time(1)
    a.beat()
    assert b.join() == 0
    settle([a, b])
    assert sorted(map(len, shares(a, b))) == [1, 1]


def test_a_new_topic_is_found_but_not_more_often_than_every_ten_seconds() -> None:
    groups = Groups()
    groups.make(log1=1)
    a = reader(groups, "a", "log.*")
    a.join()
    groups.pass_time(1)
    a.beat()
    groups.make(log2=1)
    groups.pass_time(MIN_INTERVAL_MS - 2_000)
    a.beat()
    groups.pass_time(1)
    a.beat()
    assert topics(a) == [["log1"]]
    groups.pass_time(2_000)
    a.beat()
    groups.pass_time(1)
    a.beat()
    assert topics(a) == [["log1", "log2"]]


def test_without_new_topics_a_pattern_is_matched_again_after_a_long_while() -> None:
    groups = Groups()
    groups.make(log1=1)
    a = reader(groups, "a", "log.*")
    a.join()
    groups.pass_time(1)
    first = groups.group().resolved["log.*"]
    keep_alive(groups, REFRESH_MS - 5_000, a)
    assert groups.group().resolved["log.*"] == first
    keep_alive(groups, 15_000, a)
    again = groups.group().resolved["log.*"]
    assert again.topics == first.topics
    assert again.at_ms > first.at_ms
    assert groups.group().epoch == 2


def test_a_deleted_topic_is_taken_away_before_the_pattern_is_matched_again() -> None:
    groups = Groups()
    groups.make(log1=1, log2=1)
    a = reader(groups, "a", "log.*")
    a.join()
    groups.pass_time(1)
    a.beat()
    groups.delete("log2")
    settle([a])
    assert topics(a) == [["log1"]]


def test_a_pattern_that_nobody_wants_any_more_is_forgotten() -> None:
    groups = Groups()
    groups.make(log=1, other=1)
    a, b = reader(groups, "a", "log.*"), Consumer(groups, "b", "other")
    a.join()
    b.join()
    groups.pass_time(1)
    settle([a, b])
    assert groups.group().is_subscribed_to("log")
    a.leave()
    assert not groups.group().resolved
    assert not groups.group().is_subscribed_to("log")


def test_another_pattern_takes_the_place_of_the_first() -> None:
    groups = Groups()
    groups.make(log=1, other=1)
    a = reader(groups, "a", "log.*")
    a.join()
    groups.pass_time(1)
    settle([a])
    a.beat(subscribed_topic_regex="oth.*")
    assert topics(a) == [[]], "it gives up what it no longer asks for"
    a.beat()
    groups.pass_time(1)
    settle([a])
    assert topics(a) == [["other"]]
    assert list(groups.group().resolved) == ["oth.*"]


def test_a_second_pattern_within_ten_seconds_waits_its_turn() -> None:
    groups = Groups()
    groups.make(log=1, other=1)
    a, b = reader(groups, "a", "log.*"), reader(groups, "b", "oth.*")
    a.join()
    groups.pass_time(1)
    b.join()
    groups.pass_time(1)
    settle([a, b])
    assert topics(a, b) == [["log"], []]
    keep_alive(groups, MIN_INTERVAL_MS + 5_000, a, b)
    settle([a, b])
    assert topics(a, b) == [["log"], ["other"]]


def test_a_member_may_name_topics_and_a_pattern() -> None:
    groups = Groups()
    groups.make(log=1, other=1)
    a = Consumer(groups, "a", "other", subscribed_topic_regex="log.*")
    a.join()
    assert topics(a) == [["other"]]
    groups.pass_time(1)
    settle([a])
    assert topics(a) == [["log", "other"]]


def test_an_empty_pattern_means_no_topics() -> None:
    groups = Groups()
    groups.make(log=1)
    a = reader(groups, "a", "log.*")
    a.join()
    groups.pass_time(1)
    settle([a])
    a.beat(subscribed_topic_regex="")
    settle([a])
    assert topics(a) == [[]]
    assert not groups.group().resolved


def test_patterns_are_matched_again_after_a_restart() -> None:
    groups = Groups()
    groups.make(log1=1)
    a = reader(groups, "a", "log.*")
    a.join()
    groups.pass_time(1)
    settle([a])
    version = groups.group().resolved["log.*"].version
    groups.restart()
    assert topics(a) == [["log1"]]
    keep_alive(groups, MIN_INTERVAL_MS + 5_000, a)
    assert groups.group().resolved["log.*"].version > version
    assert topics(a) == [["log1"]]
