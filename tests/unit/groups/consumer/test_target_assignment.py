"""When a target assignment is computed, how often, and by which assignor."""

from sawlog.protocol.messages.consumer_group_heartbeat_request import TopicPartitions
from support.groups.consumer_group import Consumer, Groups, settle, shares

# New group epochs


def epochs(groups: Groups) -> tuple[int, int]:
    described = groups.describe()
    return described.group_epoch, described.assignment_epoch


def test_a_member_without_topics_does_not_bump_the_epoch() -> None:
    groups = Groups()
    answer = groups.join("a")
    assert answer.member_epoch == 1
    assert epochs(groups) == (1, 1)
    assert groups.state() == "Stable"


def test_only_a_changed_subscription_bumps_the_epoch() -> None:
    groups = Groups()
    groups.make(t=1, u=1)
    a = Consumer(groups, "a", "t")
    a.join()
    assert epochs(groups) == (2, 2)
    a.beat(subscribed_topic_names=["t"])
    assert epochs(groups) == (2, 2)
    a.beat(subscribed_topic_names=["t", "u"])
    assert epochs(groups) == (3, 3)
    a.beat(subscribed_topic_names=["u", "t"])
    assert epochs(groups) == (3, 3)


def test_an_unsubscribed_topic_does_not_bump_the_epoch() -> None:
    groups = Groups()
    groups.make(t=1, u=1)
    a = Consumer(groups, "a", "t")
    a.join()
    groups.grow("u", 2)
    groups.make(v=1)
    groups.delete("u")
    a.beat()
    assert epochs(groups) == (2, 2)


def test_another_client_id_or_timeout_is_written_without_a_new_epoch() -> None:
    groups = Groups()
    groups.make(t=1)
    a = Consumer(groups, "a", "t")
    a.join()
    a.beat(rebalance_timeout_ms=1_000, rack_id="r", server_assignor="range")
    assert epochs(groups) == (2, 2)
    member = groups.group().members["a"]
    assert (member.rebalance_timeout_ms, member.rack_id, member.assignor) == (1_000, "r", "range")


def test_a_leaving_member_bumps_the_epoch_and_the_next_heartbeat_computes_the_target() -> None:
    groups = Groups()
    groups.make(t=1)
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t")
    a.join()
    b.join()
    settle([a, b])
    b.leave()
    assert epochs(groups) == (4, 3)
    assert groups.state() == "Assigning"
    a.beat()
    assert epochs(groups) == (4, 4)


def test_a_recreated_topic_is_another_topic() -> None:
    groups = Groups()
    groups.make(t=1)
    a = Consumer(groups, "a", "t")
    a.join()
    old = TopicPartitions(groups.topic_id("t"), [0])
    groups.delete("t")
    groups.make(t=1)
    answer = groups.heartbeat(member_id="a", member_epoch=a.epoch)
    assert answer.assignment.topic_partitions == []
    assert answer.member_epoch == 2
    stuck = groups.heartbeat(member_id="a", member_epoch=2, topic_partitions=[old])
    assert stuck.assignment is None
    answer = groups.heartbeat(member_id="a", member_epoch=2, topic_partitions=[])
    assert answer.assignment.topic_partitions[0].topic_id == groups.topic_id("t")


# Minimum interval (KIP-1263)


def test_targets_are_computed_with_a_minimum_interval() -> None:
    groups = Groups(interval_ms=1_000)
    groups.make(t=2)
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t")
    a.join()
    assert epochs(groups) == (2, 2), "the first is computed at once"
    b.join()
    assert epochs(groups) == (3, 2)
    assert b.epoch == 2, "it is in the epoch of the last target, of which it has no part"
    assert groups.state() == "Assigning"
    groups.pass_time(900)
    settle([a, b], rounds=1)
    assert epochs(groups) == (3, 2)
    groups.pass_time(100)
    settle([a, b])
    assert epochs(groups) == (3, 3)
    assert sorted(map(len, shares(a, b))) == [1, 1]


def test_a_groups_own_minimum_interval_takes_precedence() -> None:
    groups = Groups(interval_ms=10_000)
    groups.make(t=2)
    groups.configure("g", "consumer.assignment.interval.ms", "1000")
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t")
    a.join()
    b.join()
    settle([a, b], rounds=1)
    assert epochs(groups) == (3, 2)
    groups.pass_time(1_000)
    settle([a, b])
    assert epochs(groups) == (3, 3)


def test_many_members_that_join_together_need_few_targets() -> None:
    groups = Groups(interval_ms=1_000)
    groups.make(t=20)
    consumers = [Consumer(groups, f"m{index}", "t") for index in range(20)]
    for consumer in consumers:
        assert consumer.join() == 0
    assert epochs(groups) == (21, 2)
    groups.pass_time(1_000)
    settle(consumers, rounds=3)
    assert epochs(groups) == (21, 21)
    assert all(len(consumer.reads) == 1 for consumer in consumers)


# Choice of the assignor


def test_the_assignor_with_the_most_votes_is_used() -> None:
    groups = Groups()
    groups.make(t=3, u=3)
    asked = {"a": "range", "b": "range", "c": "uniform"}
    consumers = [
        Consumer(groups, name, "t", "u", server_assignor=assignor)
        for name, assignor in asked.items()
    ]
    for consumer in consumers:
        consumer.join()
    assert groups.describe().assignor_name == "range"
    settle(consumers)
    assert [sorted(index for _, index in share) for share in shares(*consumers)] == [
        [0, 0],
        [1, 1],
        [2, 2],
    ]


def test_the_default_assignor_is_the_first_configured_one() -> None:
    for offered in ("uniform,range", "range,uniform"):
        groups = Groups(group_consumer_assignors=offered)
        groups.join("a")
        assert groups.describe().assignor_name == offered.partition(",")[0]
        groups.join("b", server_assignor="uniform")
        groups.join("c", server_assignor="range")
        assert groups.describe().assignor_name == offered.partition(",")[0], "a draw"
