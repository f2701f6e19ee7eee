"""Groups whose members roll from one protocol to the other, from what members ask and hear."""

from typing import Any

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.groups.classic.group import ClassicGroup
from sawlog.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from sawlog.protocol.messages.sync_group_request import SyncGroupRequest
from support.consumers import REBALANCE_MS, Groups
from support.rolling import (
    SESSION_MS,
    AnyMember,
    NewMember,
    OldMember,
    group_type,
    settle,
    subscription,
)

ASSIGNMENT_IN_VERSION_3 = (3).to_bytes(2)


def world(partitions: int = 4, **settings: str) -> Groups:
    groups = Groups(group_initial_rebalance_delay_ms="0", **settings)
    groups.make(t=partitions)
    return groups


def mixed(groups: Groups, *, is_eager: bool = False) -> tuple[OldMember, NewMember]:
    """One member of each protocol, in a consumer group that has come to rest."""
    old, new = OldMember(groups, "t", is_eager=is_eager), NewMember(groups, "new", "t")
    settle(groups, [old])
    settle(groups, [old, new])
    assert group_type(groups) == "Consumer"
    return old, new


def join(groups: Groups, *, version: int = 9, **fields: Any) -> Any:
    given = {
        "group_id": "g",
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol("mine", subscription("t", ()))],
        **fields,
    }
    return groups.ask(JoinGroupRequest(**given), version)


def sync(groups: Groups, member: OldMember, **fields: Any) -> Any:
    given = {
        "group_id": "g",
        "generation_id": member.generation,
        "member_id": member.id,
        "protocol_type": "consumer",
        "protocol_name": "mine",
        **fields,
    }
    return groups.ask(SyncGroupRequest(**given))


def leave(groups: Groups, *members: tuple[str, str | None]) -> list[int]:
    message = LeaveGroupRequest("g", members=[MemberIdentity(*member) for member in members])
    return [answer.error_code for answer in groups.ask(message).members]


def read_by(*members: AnyMember) -> list[int]:
    return sorted(index for member in members for _, index in member.reads)


# Up


def test_a_first_new_member_makes_a_consumer_group_of_a_classic_one() -> None:
    groups = world()
    old, new = mixed(groups)
    described = groups.describe()
    assert described.group_state == "Stable"
    assert {member.member_id: member.member_type for member in described.members} == {
        old.id: 0,
        "new": 1,
    }
    assert read_by(old, new) == [0, 1, 2, 3]
    assert len(old.reads) == len(new.reads) == 2


def test_the_groups_epochs_go_on_from_its_generation() -> None:
    groups = world()
    old = OldMember(groups, "t")
    settle(groups, [old])
    generation = old.generation
    new = NewMember(groups, "new", "t")
    assert new.join() == 0
    assert new.epoch == generation + 1
    group = groups.group()
    assert (group.members[old.id].epoch, group.target_epoch) == (generation, generation + 1)


def test_what_a_classic_member_keeps_it_never_stops_reading() -> None:
    groups = world()
    old = OldMember(groups, "t")
    settle(groups, [old])
    kept = set(old.reads)
    new = NewMember(groups, "new", "t")
    for _ in range(20):
        settle(groups, [old, new], rounds=1)
        kept &= old.reads
    assert kept == old.reads
    assert len(kept) == 2


def test_an_eager_member_gives_all_up_and_gets_its_share_at_once() -> None:
    groups = world()
    old, new = mixed(groups, is_eager=True)
    assert read_by(old, new) == [0, 1, 2, 3]
    assert old.joins == 3, "for an id, to join, and once more when the new one came"


def test_whoever_waits_in_the_classic_group_is_told_to_come_again() -> None:
    groups = world()
    old = OldMember(groups, "t")
    settle(groups, [old])
    message = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("mine", subscription("t", ()))],
    )
    waiting = groups.machine.send(message, 3)
    groups.pass_time(100)
    assert not waiting.is_done
    assert NewMember(groups, "new", "t").join() == 0
    assert waiting.answered.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.answered.member_id in groups.group().members


def test_a_group_in_the_middle_of_a_rebalance_loses_nothing() -> None:
    groups = world()
    members: list[AnyMember] = [OldMember(groups, "t"), OldMember(groups, "t")]
    for _ in range(3):
        for member in members:
            member.step()
    members.append(NewMember(groups, "new", "t"))
    members[-1].step()
    assert group_type(groups) == "Consumer"
    settle(groups, members)
    assert read_by(*members) == [0, 1, 2, 3]


def test_a_static_member_takes_its_place_in_the_middle_of_the_first_rebalance() -> None:
    groups = world()
    old = OldMember(groups, "t", instance="desk")
    old.step()
    new = NewMember(groups, "new", "t", instance_id="desk")
    settle(groups, [new])
    assert read_by(new) == [0, 1, 2, 3]


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_without_leave_to_upgrade_a_new_member_is_sent_away(policy: str) -> None:
    groups = world(group_consumer_migration_policy=policy)
    old = OldMember(groups, "t")
    settle(groups, [old])
    assert NewMember(groups, "new", "t").join() == ErrorCode.GROUP_ID_NOT_FOUND
    settle(groups, [old])
    assert (group_type(groups), read_by(old)) == ("Classic", [0, 1, 2, 3])


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_an_empty_group_changes_its_protocol_under_any_policy(policy: str) -> None:
    groups = world(group_consumer_migration_policy=policy)
    old = OldMember(groups, "t")
    settle(groups, [old])
    assert old.leave() == 0
    new = NewMember(groups, "new", "t")
    settle(groups, [new])
    assert (group_type(groups), read_by(new)) == ("Consumer", [0, 1, 2, 3])


# Guests: JoinGroup


def test_a_guest_is_asked_to_come_with_an_id() -> None:
    groups = world()
    mixed(groups)
    answer = join(groups)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id not in groups.group().members
    assert join(groups, member_id=answer.member_id).error_code == 0
    assert answer.member_id in groups.group().members


def test_a_guest_of_old_is_a_member_at_once() -> None:
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
def test_a_guest_needs_a_protocol_that_the_others_have(fields: dict[str, Any]) -> None:
    groups = world()
    mixed(groups)
    before = groups.group().epoch
    answer = join(groups, **fields)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.group().epoch == before


def test_a_guest_whose_words_are_garbage_does_no_harm() -> None:
    groups = world()
    old, new = mixed(groups)
    garbage = [JoinGroupRequestProtocol("mine", b"\0\1garbage")]
    assert join(groups, version=3, protocols=garbage).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    settle(groups, [old, new])
    assert read_by(old, new) == [0, 1, 2, 3]


def test_a_full_group_takes_no_guests() -> None:
    groups = world(group_consumer_max_size="2")
    old, _ = mixed(groups)
    assert join(groups).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert join(groups, member_id=old.id).error_code == 0


def test_a_guest_that_joins_again_with_other_topics_gets_those() -> None:
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


def test_a_static_guest_that_nobody_knows_by_that_id_is_sent_away() -> None:
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


# Guests: SyncGroup and Heartbeat


def test_a_guest_is_told_what_it_may_have_in_the_version_that_it_speaks() -> None:
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
def test_a_sync_that_does_not_fit_is_refused(fields: dict[str, Any], code: ErrorCode) -> None:
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
def test_a_heartbeat_of_a_guest(fields: dict[str, Any], code: ErrorCode) -> None:
    groups = world()
    old, _ = mixed(groups)
    assert old.heartbeat(**fields) is code


def test_a_guest_hears_of_a_new_target_of_partitions_to_give_up_and_of_partitions_set_free() -> (
    None
):
    groups = world()
    old, new = mixed(groups)
    third = NewMember(groups, "third", "t")
    third.join()
    fourth = join(groups, version=3)
    member = OldMember(groups, "t")
    member.id, member.generation = fourth.member_id, fourth.generation_id
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "the target is new"
    assert sync(groups, old).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert member.heartbeat() is ErrorCode.NONE, "others have not given anything up yet"
    settle(groups, [new, third], rounds=5)
    old.step()  # it joins, and keeps all that it has
    groups.pass_time(20)
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "it has something to give up"
    settle(groups, [old, new, third])
    assert member.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "there is something for it"


# Guests: time and leaving


def test_a_guest_that_is_silent_for_its_own_session_is_out() -> None:
    groups = world()
    old, new = mixed(groups)
    groups.pass_time(SESSION_MS - 1_000)
    assert old.id in groups.group().members
    groups.pass_time(1_000)
    assert old.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    settle(groups, [new])
    assert read_by(new) == [0, 1, 2, 3]


def beat_until_out(groups: Groups, guest: OldMember, *others: NewMember) -> int:
    """How long it lives although it is told to join, and only beats."""
    lived_ms = 0
    while guest.heartbeat() is not ErrorCode.UNKNOWN_MEMBER_ID:
        groups.pass_time(5_000)
        lived_ms += 5_000
        for other in others:
            assert other.beat() == 0
        assert lived_ms <= 2 * REBALANCE_MS
    return lived_ms


def test_a_guest_that_does_not_join_when_it_is_told_to_is_out() -> None:
    groups = world()
    old, new = mixed(groups)
    third = NewMember(groups, "third", "t")
    third.join()
    assert beat_until_out(groups, old, new, third) == REBALANCE_MS


def test_a_guest_that_does_not_sync_when_it_has_joined_is_out() -> None:
    groups = world()
    _, new = mixed(groups)
    answer = join(groups, version=3)
    guest = OldMember(groups, "t")
    guest.id, guest.generation = answer.member_id, answer.generation_id
    assert beat_until_out(groups, guest, new) == REBALANCE_MS


def test_an_admin_puts_out_a_guest_by_the_name_of_its_instance() -> None:
    groups = world()
    mixed(groups)
    guest = join(groups, group_instance_id="desk")
    unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
    assert leave(groups, ("ghost", None), ("ghost", "desk"), ("", "chair")) == [
        unknown,
        fenced,
        unknown,
    ]
    assert guest.member_id in groups.group().members
    assert leave(groups, ("", "desk"), (guest.member_id, "desk")) == [0, 0]
    assert guest.member_id not in groups.group().members


# Down


def test_when_the_last_new_member_leaves_the_group_is_a_classic_one() -> None:
    groups = world()
    old, new = mixed(groups)
    other = OldMember(groups, "t")
    settle(groups, [old, other, new])
    epoch = groups.group().epoch
    kept = set(old.reads)
    assert new.leave() == 0
    group = groups.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.generation, group.state_name) == (epoch, "PreparingRebalance")
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    settle(groups, [old, other])
    assert read_by(old, other) == [0, 1, 2, 3]
    assert kept <= old.reads


def test_a_new_member_that_dies_makes_the_group_a_classic_one() -> None:
    groups = world()
    old, _ = mixed(groups)
    for _ in range(20):
        settle(groups, [old], rounds=1)
        groups.pass_time(3_000)
    assert (group_type(groups), read_by(old)) == ("Classic", [0, 1, 2, 3])


@pytest.mark.parametrize("policy", ["upgrade", "UPGRADE"])
def test_without_leave_to_downgrade_the_guests_go_on_in_a_consumer_group(policy: str) -> None:
    groups = world(group_consumer_migration_policy=policy)
    old, new = mixed(groups)
    assert new.leave() == 0
    settle(groups, [old])
    assert group_type(groups) == "Consumer"
    assert old.heartbeat() is ErrorCode.NONE


def test_when_all_leave_at_once_the_group_stays_a_consumer_group() -> None:
    groups = world()
    old, _ = mixed(groups)
    assert leave(groups, (old.id, None), ("new", None)) == [0, 0]
    assert (group_type(groups), groups.state()) == ("Consumer", "Empty")


def test_a_static_guest_in_the_last_new_members_place_ends_the_consumer_group_in_peace() -> None:
    groups = world()
    old = OldMember(groups, "t")
    settle(groups, [old])
    new = NewMember(groups, "new", "t", instance_id="desk")
    settle(groups, [old, new])
    reads, joins = set(new.reads), old.joins
    assert new.leave(-2) == 0
    back = OldMember(groups, "t", instance="desk")
    settle(groups, [old, back])
    assert group_type(groups) == "Classic"
    assert back.reads == reads
    assert old.joins == joins, "nobody had to join again"


def test_a_static_guest_that_comes_while_others_move_waits_for_a_rebalance() -> None:
    groups = world()
    old = OldMember(groups, "t")
    settle(groups, [old])
    new = NewMember(groups, "new", "t", instance_id="desk")
    new.step()
    assert read_by(old) == [0, 1, 2, 3], "it has not given anything up yet"
    back = OldMember(groups, "t", instance="desk")
    settle(groups, [old, back])
    assert group_type(groups) == "Classic"
    assert read_by(old, back) == [0, 1, 2, 3]
    assert len(back.reads) == 2


# Restarts


def test_a_mixed_group_is_the_same_after_a_restart() -> None:
    groups = world()
    old, new = mixed(groups)
    before = groups.group()
    groups.restart()
    after = groups.group()
    for name in ("epoch", "target_epoch", "metadata_hash", "members", "targets", "owners"):
        assert getattr(after, name) == getattr(before, name), name
    assert old.heartbeat() is ErrorCode.NONE
    settle(groups, [old, new])
    assert read_by(old, new) == [0, 1, 2, 3]


def test_a_downgrade_whose_rebalance_was_lost_in_a_restart_still_has_one() -> None:
    groups = world()
    old, new = mixed(groups)
    assert new.leave() == 0
    groups.restart()
    settle(groups, [old])
    assert (group_type(groups), read_by(old)) == ("Classic", [0, 1, 2, 3])
