"""The requests of classic members of consumer groups."""

from typing import Any

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.join_group_request import JoinGroupRequestProtocol
from support.groups.consumer_group import REBALANCE_MS, Groups
from support.groups.rolling_members import (
    SESSION_MS,
    ClassicClient,
    ConsumerClient,
    join,
    leave,
    mixed,
    read_by,
    settle,
    subscription,
    sync,
    world,
)

ASSIGNMENT_IN_VERSION_3 = (3).to_bytes(2)

# JoinGroup


def test_a_classic_member_must_join_with_an_id() -> None:
    groups = world()
    mixed(groups)
    answer = join(groups)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id not in groups.group().members
    assert join(groups, member_id=answer.member_id).error_code == 0
    assert answer.member_id in groups.group().members


def test_a_classic_member_joins_with_one_request_before_version_4() -> None:
    groups = world()
    mixed(groups)
    answer = join(groups, version=3)
    assert (answer.error_code, answer.protocol_name) == (0, "mine")
    assert (answer.leader, answer.members) == ("", [])
    assert answer.generation_id == groups.group().members[answer.member_id].epoch


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect"},
        {"protocols": []},
        {"protocols": [JoinGroupRequestProtocol("other", subscription("t", ()))]},
    ],
    ids=str,
)
def test_a_classic_member_needs_a_protocol_in_common(fields: dict[str, Any]) -> None:
    groups = world()
    mixed(groups)
    before = groups.group().epoch
    answer = join(groups, **fields)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.group().epoch == before


def test_a_malformed_subscription_is_refused() -> None:
    groups = world()
    old, new = mixed(groups)
    garbage = [JoinGroupRequestProtocol("mine", b"\0\1garbage")]
    assert join(groups, version=3, protocols=garbage).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    settle(groups, [old, new])
    assert read_by(old, new) == [0, 1, 2, 3]


def test_a_full_group_refuses_classic_members() -> None:
    groups = world(group_consumer_max_size="2")
    old, _ = mixed(groups)
    assert join(groups).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert join(groups, member_id=old.id).error_code == 0


def test_a_classic_member_may_rejoin_with_another_subscription() -> None:
    groups = world()
    groups.make(u=2)
    old, new = mixed(groups)
    other = [JoinGroupRequestProtocol("mine", subscription(["u"], ()))]
    assert join(groups, member_id=old.id, protocols=other).error_code == 0
    settle(groups, [new])
    assert read_by(new) == [0, 1, 2, 3]
    member = groups.group().members[old.id]
    assert member.topics == {"u"}
    assert list(member.assigned) == [groups.topic_id("u")]


def test_an_unknown_static_classic_member_is_refused() -> None:
    groups = world()
    mixed(groups)
    answer = join(groups, member_id="ghost", group_instance_id="desk")
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    first = join(groups, group_instance_id="desk")
    assert first.error_code == 0
    second = join(groups, group_instance_id="desk")
    assert second.member_id != first.member_id
    answer = join(groups, member_id=first.member_id, group_instance_id="desk")
    assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID


# SyncGroup and Heartbeat


def test_the_assignment_is_encoded_in_the_version_of_the_classic_member() -> None:
    groups = world()
    old, _ = mixed(groups)
    answer = sync(groups, old)
    assert (answer.error_code, answer.protocol_type, answer.protocol_name) == (
        0,
        "consumer",
        "mine",
    )
    assert answer.assignment.startswith(ASSIGNMENT_IN_VERSION_3)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": "ghost"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "new"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "desk"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
    ids=str,
)
def test_an_inconsistent_sync_is_refused(fields: dict[str, Any], code: ErrorCode) -> None:
    groups = world()
    old, _ = mixed(groups)
    assert sync(groups, old, **fields).error_code == code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"member_id": "ghost"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "new"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "desk"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 1}, ErrorCode.ILLEGAL_GENERATION),
    ],
    ids=str,
)
def test_a_heartbeat_of_a_classic_member_is_checked(
    fields: dict[str, Any], code: ErrorCode
) -> None:
    groups = world()
    old, _ = mixed(groups)
    assert old.heartbeat(**fields) is code


def test_a_classic_member_rejoins_for_a_target_a_revocation_and_free_partitions() -> None:
    groups = world()
    old, new = mixed(groups)
    third = ConsumerClient(groups, "third", "t")
    third.join()
    fourth = join(groups, version=3)
    member = ClassicClient(groups, "t")
    member.id, member.generation = fourth.member_id, fourth.generation_id
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "the target is new"
    assert sync(groups, old).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert member.heartbeat() is ErrorCode.NONE, "others have not given anything up yet"
    settle(groups, [new, third], rounds=5)
    old.step()  # it joins and keeps all its partitions
    groups.pass_time(20)
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "it has something to give up"
    settle(groups, [old, new, third])
    assert member.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "there is something for it"


# Timeouts and leaving


def test_classic_members_alone_get_the_partitions_of_the_last_consumer_member() -> None:
    groups = world(group_consumer_migration_policy="upgrade")
    old, new = mixed(groups)
    assert new.leave() == 0
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    settle(groups, [old])
    assert read_by(old) == [0, 1, 2, 3]
    assert old.heartbeat() is ErrorCode.NONE


def test_classic_members_alone_rejoin_only_when_a_target_may_be_computed() -> None:
    interval_ms = 5_000
    groups = Groups(
        interval_ms=interval_ms,
        group_initial_rebalance_delay_ms="0",
        group_consumer_migration_policy="upgrade",
    )
    groups.make(t=4)
    old, new = mixed(groups)
    groups.pass_time(interval_ms)
    other = ClassicClient(groups, "t")
    settle(groups, [other, old, new])  # its join computes a target
    assert new.leave() == 0
    assert [old.heartbeat(), other.heartbeat()] == [ErrorCode.NONE, ErrorCode.NONE]
    groups.pass_time(interval_ms)
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    settle(groups, [old, other])
    assert read_by(old, other) == [0, 1, 2, 3]


def test_a_classic_member_waits_for_the_target_that_a_consumer_member_computes() -> None:
    groups = world()
    old, new = mixed(groups)
    other = ClassicClient(groups, "t")
    settle(groups, [old, other, new])
    assert other.leave() == 0
    assert old.heartbeat() is ErrorCode.NONE
    new.step()
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_silent_classic_member_is_removed_after_its_own_session_timeout() -> None:
    groups = world()
    old, new = mixed(groups)
    groups.pass_time(SESSION_MS - 1_000)
    assert old.id in groups.group().members
    groups.pass_time(1_000)
    assert old.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    settle(groups, [new])
    assert read_by(new) == [0, 1, 2, 3]


def beat_until_removed(groups: Groups, classic: ClassicClient, *others: ConsumerClient) -> int:
    """The time until a member is removed that sends heartbeats and does not rejoin."""
    lived_ms = 0
    while classic.heartbeat() is not ErrorCode.UNKNOWN_MEMBER_ID:
        groups.pass_time(5_000)
        lived_ms += 5_000
        for other in others:
            assert other.beat() == 0
        assert lived_ms <= 2 * REBALANCE_MS
    return lived_ms


def test_a_classic_member_that_does_not_rejoin_in_time_is_removed() -> None:
    groups = world()
    old, new = mixed(groups)
    third = ConsumerClient(groups, "third", "t")
    third.join()
    assert beat_until_removed(groups, old, new, third) == REBALANCE_MS


def test_a_classic_member_that_does_not_sync_in_time_is_removed() -> None:
    groups = world()
    _, new = mixed(groups)
    answer = join(groups, version=3)
    classic = ClassicClient(groups, "t")
    classic.id, classic.generation = answer.member_id, answer.generation_id
    assert beat_until_removed(groups, classic, new) == REBALANCE_MS


def test_an_admin_removes_a_classic_member_by_its_instance_id() -> None:
    groups = world()
    mixed(groups)
    classic = join(groups, group_instance_id="desk")
    unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
    assert leave(groups, ("ghost", None), ("ghost", "desk"), ("", "chair")) == [
        unknown,
        fenced,
        unknown,
    ]
    assert classic.member_id in groups.group().members
    assert leave(groups, ("", "desk"), (classic.member_id, "desk")) == [0, 0]
    assert classic.member_id not in groups.group().members
