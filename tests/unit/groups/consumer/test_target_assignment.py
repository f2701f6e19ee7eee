"""When a target is computed anew, by which assignor, and how often."""

from sawlog.protocol.messages.consumer_group_heartbeat_request import TopicPartitions
from support.groups.consumer_group import Consumer, Groups, settle, shares

# What makes a new epoch of the group


def epochs(groups: Groups) -> tuple[int, int]:
    described = groups.describe()
    return described.group_epoch, described.assignment_epoch


def test_a_member_without_topics_makes_no_new_epoch() -> None:
    groups = Groups()
    answer = groups.join("a")
    assert answer.member_epoch == 1
    assert epochs(groups) == (1, 1)
    assert groups.state() == "Stable"


def test_a_new_subscription_makes_a_new_epoch_and_the_same_again_does_not() -> None:
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


def test_a_topic_that_somebody_else_reads_makes_no_new_epoch() -> None:
    groups = Groups()
    groups.make(t=1, u=1)
    a = Consumer(groups, "a", "t")
    a.join()
    groups.grow("u", 2)
    groups.make(v=1)
    groups.delete("u")
    a.beat()
    assert epochs(groups) == (2, 2)


def test_another_client_name_or_timeout_is_written_but_makes_no_new_epoch() -> None:
    groups = Groups()
    groups.make(t=1)
    a = Consumer(groups, "a", "t")
    a.join()
    a.beat(rebalance_timeout_ms=1_000, rack_id="r", server_assignor="range")
    assert epochs(groups) == (2, 2)
    member = groups.group().members["a"]
    assert (member.rebalance_timeout_ms, member.rack_id, member.assignor) == (1_000, "r", "range")


def test_a_leaving_member_makes_a_new_epoch_that_the_next_heartbeat_computes() -> None:
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


def test_a_topic_that_is_deleted_and_made_again_is_another_one() -> None:
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


# How often (KIP-1263)


def test_targets_keep_their_distance_in_time() -> None:
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


def test_many_members_that_come_together_make_few_targets() -> None:
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


# By which assignor


def test_most_members_choose_the_assignor() -> None:
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


def test_without_a_choice_it_is_the_first_on_offer() -> None:
    for offered in ("uniform,range", "range,uniform"):
        groups = Groups(group_consumer_assignors=offered)
        groups.join("a")
        assert groups.describe().assignor_name == offered.partition(",")[0]
        groups.join("b", server_assignor="uniform")
        groups.join("c", server_assignor="range")
        assert groups.describe().assignor_name == offered.partition(",")[0], "a draw"
