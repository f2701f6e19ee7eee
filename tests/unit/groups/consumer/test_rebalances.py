"""The life of a consumer group, as its members see it in their heartbeats."""

from sawlog.core.errors import ErrorCode
from support.groups.consumer_group import REBALANCE_MS, SESSION_MS, Consumer, Groups, settle, shares


def t(*indexes: int) -> list[tuple[str, int]]:
    return [("t", index) for index in indexes]


def test_the_first_member_gets_all_partitions_at_once() -> None:
    groups = Groups()
    groups.make(t=3)
    a = Consumer(groups, "a", "t")
    assert a.join() == 0
    assert a.epoch == 2
    assert shares(a) == [t(0, 1, 2)]
    assert groups.state() == "Stable"


def test_a_second_member_gets_partitions_only_after_the_first_revoked_them() -> None:
    groups = Groups()
    groups.make(t=2)
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t")
    a.join()
    b.join()
    assert (b.epoch, shares(b)) == (3, [[]])
    assert groups.state() == "Reconciling"
    a.beat()
    assert (a.epoch, shares(a)) == (2, [t(0)]), "it must let go before it goes on"
    b.beat()
    assert shares(b) == [[]], "the first member has not revoked it yet"
    a.beat()
    assert a.epoch == 3
    b.beat()
    assert shares(a, b) == [t(0), t(1)]
    assert groups.state() == "Stable"


def test_more_members_than_partitions_leaves_the_rest_idle() -> None:
    groups = Groups()
    groups.make(t=2)
    consumers = [Consumer(groups, name, "t") for name in "abc"]
    for consumer in consumers:
        consumer.join()
    settle(consumers)
    assert sorted(map(len, shares(*consumers))) == [0, 1, 1]
    assert {consumer.epoch for consumer in consumers} == {4}


def test_two_groups_are_independent_of_each_other() -> None:
    groups = Groups()
    groups.make(t=2)
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t", group_id="h")
    a.join()
    b.join()
    assert shares(a, b) == [t(0, 1), t(0, 1)]
    assert (a.epoch, b.epoch) == (2, 2)


def test_a_dead_members_partitions_move_within_the_session_timeout() -> None:
    groups = Groups()
    groups.make(t=2)
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t")
    a.join()
    b.join()
    settle([a, b])
    groups.pass_time(SESSION_MS - 1_000)
    a.beat()
    assert shares(a) == [t(0)]
    groups.pass_time(1_000)
    a.beat()
    assert shares(a) == [t(0, 1)]
    assert b.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_frees_its_partitions_at_once() -> None:
    groups = Groups()
    groups.make(t=2)
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t")
    a.join()
    b.join()
    settle([a, b])
    assert b.leave() == 0
    a.beat()
    assert shares(a) == [t(0, 1)]
    assert a.leave() == 0
    assert groups.state() == "Empty"


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    groups = Groups()
    groups.make(t=2)
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t")
    a.join()
    b.join()
    a.beat()
    for _ in range(REBALANCE_MS // 10_000 - 1):
        groups.pass_time(10_000)
        assert groups.heartbeat(member_id="a", member_epoch=2).error_code == 0
        assert b.beat() == 0
    assert shares(b) == [[]]
    groups.pass_time(10_000)
    answer = groups.heartbeat(member_id="a", member_epoch=2)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    b.beat()
    assert shares(b) == [t(0, 1)]


def test_a_member_that_revokes_in_time_is_not_removed_later() -> None:
    groups = Groups()
    groups.make(t=2)
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t")
    a.join()
    b.join()
    settle([a, b])
    for _ in range(10):
        groups.pass_time(REBALANCE_MS // 5)
        assert (a.beat(), b.beat()) == (0, 0)


def test_a_topic_that_is_extended_is_assigned_again() -> None:
    groups = Groups()
    groups.make(t=2)
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t")
    a.join()
    b.join()
    settle([a, b])
    before = shares(a, b)
    groups.grow("t", 4)
    assert groups.state() == "Stable", "no heartbeat has compared the topics yet"
    a.beat()
    assert groups.state() in {"Reconciling", "Stable"}
    settle([a, b])
    assert all(set(old) <= set(new) for old, new in zip(before, shares(a, b), strict=True))
    assert sorted(a.reads | b.reads) == t(0, 1, 2, 3)


def test_a_deleted_topic_is_revoked() -> None:
    groups = Groups()
    groups.make(t=2, u=1)
    a = Consumer(groups, "a", "t", "u")
    a.join()
    groups.delete("u")
    settle([a])
    assert shares(a) == [t(0, 1)]
    assert a.epoch == 3


def test_a_topic_created_after_its_subscription_is_assigned() -> None:
    groups = Groups()
    a = Consumer(groups, "a", "t")
    a.join()
    assert shares(a) == [[]]
    groups.make(t=1)
    a.beat()
    assert shares(a) == [t(0)]


def test_a_member_with_a_new_subscription_revokes_the_old_topics_first() -> None:
    groups = Groups()
    groups.make(t=1, u=1)
    a = Consumer(groups, "a", "t")
    a.join()
    a.subscribe("u")
    assert shares(a) == [[]]
    a.beat()
    assert shares(a) == [[("u", 0)]]
    assert groups.state() == "Stable"


def test_a_restart_restores_the_group() -> None:
    groups = Groups()
    groups.make(t=3)
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t", instance_id="i")
    a.join()
    b.join()
    settle([a, b])
    before, described = shares(a, b), groups.describe()
    groups.restart()
    assert groups.describe() == described
    assert (a.beat(), b.beat()) == (0, 0)
    assert shares(a, b) == before


def test_sessions_restart_after_a_restart_and_time_out() -> None:
    groups = Groups()
    groups.make(t=1)
    a = Consumer(groups, "a", "t")
    a.join()
    groups.pass_time(SESSION_MS - 1_000)
    groups.restart()
    groups.pass_time(SESSION_MS - 1_000)
    assert a.beat() == 0
    groups.restart()
    groups.pass_time(SESSION_MS)
    assert a.beat() == ErrorCode.UNKNOWN_MEMBER_ID
