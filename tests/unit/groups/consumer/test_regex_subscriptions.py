"""Subscriptions by regular expression: when they are resolved, and what they match."""

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
def test_an_invalid_regular_expression_is_refused_and_changes_nothing(pattern: str) -> None:
    groups = Groups()
    answer = groups.join("a", subscribed_topic_regex=pattern)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert pattern in answer.error_message
    assert groups.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(KafkaError):
        compiled(pattern)


def test_a_regular_expression_matches_whole_names() -> None:
    names = ["log", "log-1", "catalog", "Log"]
    assert matching("log.*", names) == {"log", "log-1"}
    assert matching("log", names) == {"log"}
    assert matching("(?i)log", names) == {"log", "Log"}
    assert matching("x*", names) == set()


def test_a_regular_expression_is_resolved_for_the_next_heartbeat() -> None:
    groups = Groups()
    groups.make(log1=1, log2=1, other=1)
    a = reader(groups, "a", "log.*")
    assert a.join() == 0
    assert (a.epoch, topics(a)) == (1, [[]])
    groups.pass_time(1)
    a.beat()
    assert (a.epoch, topics(a)) == (2, [["log1", "log2"]])


def test_a_second_member_with_the_same_regular_expression_gets_its_share_at_once() -> None:
    groups = Groups()
    groups.make(log=2)
    a, b = reader(groups, "a", "log.*"), reader(groups, "b", "log.*")
    a.join()
    groups.pass_time(1)
    a.beat()
    assert b.join() == 0
    settle([a, b])
    assert sorted(map(len, shares(a, b))) == [1, 1]


def test_new_topics_are_resolved_at_most_every_ten_seconds() -> None:
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


def test_a_regular_expression_is_resolved_again_after_the_refresh_interval() -> None:
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


def test_a_deleted_topic_is_revoked_before_the_next_resolution() -> None:
    groups = Groups()
    groups.make(log1=1, log2=1)
    a = reader(groups, "a", "log.*")
    a.join()
    groups.pass_time(1)
    a.beat()
    groups.delete("log2")
    settle([a])
    assert topics(a) == [["log1"]]


def test_a_regular_expression_without_members_is_deleted() -> None:
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


def test_another_regular_expression_replaces_the_first() -> None:
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


def test_a_second_regular_expression_within_ten_seconds_waits() -> None:
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


def test_a_member_may_subscribe_by_name_and_by_regular_expression() -> None:
    groups = Groups()
    groups.make(log=1, other=1)
    a = Consumer(groups, "a", "other", subscribed_topic_regex="log.*")
    a.join()
    assert topics(a) == [["other"]]
    groups.pass_time(1)
    settle([a])
    assert topics(a) == [["log", "other"]]


def test_an_empty_regular_expression_matches_no_topics() -> None:
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


def test_regular_expressions_are_resolved_again_after_a_restart() -> None:
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
