"""ConsumerGroupHeartbeat: required fields, checks of the sender, and the response."""

from typing import Any

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import parse_topic_id
from sawlog.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from support.groups.consumer_group import REBALANCE_MS, Consumer, Groups, settle

# Required fields


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": ""},
        {"member_id": " "},
        {"group_id": ""},
        {"group_id": "  "},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": [TopicPartitions(b"t" * 16, [0])]},
        {"subscribed_topic_names": None},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"member_epoch": -1, "member_id": ""},
        {"member_epoch": 1, "member_id": ""},
    ],
    ids=str,
)
def test_a_heartbeat_with_missing_fields_is_invalid(fields: dict[str, Any]) -> None:
    groups = Groups()
    whole = {
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": REBALANCE_MS,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    answer = groups.heartbeat(**{**whole, **fields})
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message
    assert groups.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_unsupported_assignor_is_refused() -> None:
    groups = Groups(group_consumer_assignors="uniform")
    for name in ("range", "sticky"):
        answer = groups.join("m", "t", server_assignor=name)
        assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR


def test_the_consumer_protocol_can_be_disabled() -> None:
    groups = Groups(group_coordinator_rebalance_protocols="classic")
    assert groups.join("m", "t").error_code == ErrorCode.UNSUPPORTED_VERSION
    assert groups.describe().error_code == ErrorCode.UNSUPPORTED_VERSION


# The sender


def test_a_member_gets_an_id_in_version_0() -> None:
    groups = Groups()
    groups.make(t=1)
    first = groups.join("", "t", version=0)
    second = groups.join("", "t", version=0)
    assert first.error_code == second.error_code == 0
    assert first.member_id != second.member_id
    parse_topic_id(first.member_id)  # Kafka's format of ids


def test_an_unknown_member_is_refused() -> None:
    groups = Groups()
    assert (
        groups.heartbeat(member_id="m", member_epoch=1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    )
    assert (
        groups.heartbeat(member_id="m", member_epoch=-1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    )
    groups.join("a")
    assert groups.heartbeat(member_id="m", member_epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        groups.heartbeat(member_id="m", member_epoch=-1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_a_newer_epoch_is_fenced() -> None:
    groups = Groups()
    groups.make(t=1)
    epoch = groups.join("m", "t").member_epoch
    answer = groups.heartbeat(member_id="m", member_epoch=epoch + 1)
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_the_previous_epoch_is_accepted_if_only_assigned_partitions_are_owned() -> None:
    groups = Groups()
    groups.make(t=2)
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t")
    a.join()
    old = a.epoch
    b.join()
    settle([a, b])
    mine = TopicPartitions(groups.topic_id("t"), [0])
    both = TopicPartitions(groups.topic_id("t"), [0, 1])
    for owned, code in (
        (None, ErrorCode.FENCED_MEMBER_EPOCH),
        ([both], ErrorCode.FENCED_MEMBER_EPOCH),
        ([TopicPartitions(b"x" * 16, [0])], ErrorCode.FENCED_MEMBER_EPOCH),
        ([mine], ErrorCode.NONE),
        ([], ErrorCode.NONE),
    ):
        answer = groups.heartbeat(member_id="a", member_epoch=old, topic_partitions=owned)
        assert answer.error_code == code, owned
        if code == ErrorCode.NONE:
            assert answer.member_epoch == a.epoch


def test_two_epochs_behind_is_fenced() -> None:
    groups = Groups()
    groups.make(t=1)
    a = Consumer(groups, "a", "t")
    a.join()
    old = a.epoch
    for name in "bc":
        groups.join(name, "t")
        a.beat()
    answer = groups.heartbeat(member_id="a", member_epoch=old, topic_partitions=[])
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_fenced_member_rejoins_with_epoch_0() -> None:
    groups = Groups()
    groups.make(t=1)
    a = Consumer(groups, "a", "t")
    a.join()
    groups.pass_time(60_000)
    assert a.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert a.join() == 0
    assert a.reads == {("t", 0)}


def test_a_member_that_rejoins_keeps_its_partitions() -> None:
    groups = Groups()
    groups.make(t=1)
    first = groups.join("a", "t")
    again = groups.join("a", "t")
    assert again == first


def test_a_full_consumer_group_refuses_new_members() -> None:
    groups = Groups(group_consumer_max_size="1")
    groups.make(t=1)
    a = Consumer(groups, "a", "t")
    a.join()
    assert groups.join("b", "t").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert groups.join("", "t", version=0).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert a.beat() == 0
    assert a.join() == 0
    a.leave()
    assert groups.join("b", "t").error_code == 0


# The response


def test_the_response_has_the_heartbeat_interval() -> None:
    groups = Groups(group_consumer_heartbeat_interval_ms="7000")
    assert groups.join("a").heartbeat_interval_ms == 7_000


def test_a_groups_own_interval_takes_precedence_within_the_brokers_limits() -> None:
    groups = Groups()
    groups.configure("g", "consumer.heartbeat.interval.ms", "8000")
    assert groups.join("a").heartbeat_interval_ms == 8_000
    assert groups.join("a", group_id="other").heartbeat_interval_ms == 5_000
    groups.restart()
    assert groups.join("a").heartbeat_interval_ms == 8_000
    groups.configure("g", "consumer.heartbeat.interval.ms", None)
    assert groups.join("a").heartbeat_interval_ms == 5_000


def test_a_groups_own_session_timeout_removes_a_silent_member() -> None:
    groups = Groups()
    groups.make(t=1)
    groups.configure("g", "consumer.session.timeout.ms", "60000")
    assert groups.join("a", "t").error_code == 0
    groups.pass_time(59_000)
    assert len(groups.describe().members) == 1
    groups.pass_time(2_000)
    assert groups.describe().members == []


def test_the_response_has_an_assignment_only_if_it_changed_or_was_requested() -> None:
    groups = Groups()
    groups.make(t=1)
    joined = groups.join("a", "t")
    assert joined.assignment.topic_partitions[0].partitions == [0]
    quiet = groups.heartbeat(member_id="a", member_epoch=joined.member_epoch)
    assert quiet.assignment is None
    owned = [TopicPartitions(groups.topic_id("t"), [0])]
    partial = groups.heartbeat(
        member_id="a", member_epoch=joined.member_epoch, topic_partitions=owned
    )
    assert partial.assignment is None
    full = groups.heartbeat(
        member_id="a",
        member_epoch=joined.member_epoch,
        topic_partitions=owned,
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=["t"],
    )
    assert full.assignment == joined.assignment
    groups.grow("t", 2)
    grown = groups.heartbeat(member_id="a", member_epoch=joined.member_epoch)
    assert grown.assignment.topic_partitions[0].partitions == [0, 1]


def test_an_empty_assignment_differs_from_no_assignment() -> None:
    groups = Groups()
    answer = groups.join("a", "missing")
    assert answer.assignment is not None
    assert answer.assignment.topic_partitions == []


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    groups = Groups()
    groups.make(t=1)
    a = Consumer(groups, "a", "t")
    a.join()
    a.beat()
    log = groups.machine.broker.replicas.by_partition["__consumer_offsets", 0].log
    end = log.end_offset
    for _ in range(3):
        assert a.beat() == 0
    assert log.end_offset == end


def test_a_heartbeat_that_cannot_be_written_changes_nothing() -> None:
    groups = Groups()
    groups.make(t=1)
    a = Consumer(groups, "a", "t")
    a.join()
    described = groups.describe()
    groups.machine.disk.free_bytes = 0
    assert groups.join("b", "t").error_code == ErrorCode.NOT_COORDINATOR
    assert a.leave() == ErrorCode.NOT_COORDINATOR
    groups.machine.disk.free_bytes = None
    assert groups.describe() == described
    assert groups.heartbeat(member_id="a", member_epoch=a.epoch).error_code == 0
    groups.pass_time(60_000)
    assert groups.state() == "Empty", "its session went on although its leave was lost"


def test_members_that_join_together_share_one_target() -> None:
    groups = Groups()
    groups.make(t=40)
    calls = [
        groups.machine.send(
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=f"m{number}",
                member_epoch=0,
                rebalance_timeout_ms=REBALANCE_MS,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            )
        )
        for number in range(20)
    ]
    assert groups.machine.schedule.run(lambda: all(call.is_done for call in calls))
    answers = [call.answered for call in calls]
    assert [answer.error_code for answer in answers] == [0] * 20
    assert {answer.member_epoch for answer in answers} == {21}  # the first group epoch is 1
    assert sorted(
        index
        for answer in answers
        for topic in answer.assignment.topic_partitions
        for index in topic.partitions
    ) == list(range(40))
    assert groups.group().epoch == groups.group().target_epoch == 21


def test_a_joining_members_first_record_is_enough_after_a_kill() -> None:
    groups = Groups()
    groups.make(t=2)
    Consumer(groups, "a", "t").join()
    groups.machine.send(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="b",
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
    )
    assert groups.group().target_epoch < groups.group().epoch
    groups.restart()
    assert set(groups.group().members) == {"a", "b"}
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t")
    a.join()
    b.join()
    settle([a, b])
    assert a.reads | b.reads == {("t", 0), ("t", 1)}
    assert len(a.reads) == len(b.reads) == 1
